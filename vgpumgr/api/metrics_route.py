"""The route that Prometheus reads, outside of ``/v1`` where every Prometheus looks."""

from __future__ import annotations

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response

from vgpumgr.access.permission import Permission
from vgpumgr.api.service import Service
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.metrics import newest_series
from vgpumgr.helper.series_text import MEDIA_TYPE

PATH = "/metrics"


def add_metrics_route(api: FastAPI, service: Service) -> None:
    """Add it. Who asks holds the permission of the endpoint ``metrics.show`` in all tenants."""

    @api.get(
        PATH,
        operation_id="metrics.scrape",
        tags=["metrics"],
        summary="All series as text, for Prometheus.",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}, "description": "The series."}},
        openapi_extra={"x-permission": Permission.METRICS_READ},
    )
    async def metrics(request: Request) -> Response:
        def read() -> bytes:
            service.admitted(request, Permission.METRICS_READ, changes=False)
            return newest_series(CallContext(app=service.app))

        return Response(await to_thread.run_sync(read), media_type=MEDIA_TYPE)
