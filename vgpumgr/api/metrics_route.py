"""The routes that Prometheus reads: the series outside of ``/v1`` where every Prometheus looks, and
the hosts that it is to ask itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from vgpumgr.access.permission import Permission
from vgpumgr.api.service import Service
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.metrics import newest_series
from vgpumgr.helper.series_text import MEDIA_TYPE

PATH, TARGETS_PATH = "/metrics", "/v1/metrics/sd"
_PIECE = 256 << 10


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    """One after the other as the client takes them: none waits whole in a connection's buffer."""
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]


def add_metrics_routes(api: FastAPI, service: Service) -> None:
    """Add them. Who asks holds the permission of the endpoint ``metrics.show`` in all tenants."""

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

        data = await to_thread.run_sync(read)
        length = {"Content-Length": str(len(data))}
        return StreamingResponse(_pieces(data), headers=length, media_type=MEDIA_TYPE)

    @api.get(
        TARGETS_PATH,
        operation_id="metrics.targets",
        tags=["metrics"],
        summary="Hosts with an exporter of their own, for Prometheus' HTTP service discovery.",
        openapi_extra={"x-permission": Permission.METRICS_READ},
    )
    async def targets(request: Request) -> JSONResponse:
        from vgpumgr.telemetry.scrape_targets import scrape_targets

        def read() -> list[dict[str, Any]]:
            service.admitted(request, Permission.METRICS_READ, changes=False)
            return scrape_targets(service.app.ledger.hosts())

        return JSONResponse(await to_thread.run_sync(read))
