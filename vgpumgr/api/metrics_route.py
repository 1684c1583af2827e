"""The route of the series that Prometheus reads, as `serve` has written them last."""

from __future__ import annotations

import time

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response

from vgpumgr.access.permission import Permission
from vgpumgr.api.service import Service
from vgpumgr.model.errors import FiguresTooOld
from vgpumgr.telemetry.exposition import CONTENT_TYPE
from vgpumgr.telemetry.telemetry_files import TelemetryFiles

PATH = "/metrics"


def add_metrics_route(api: FastAPI, service: Service) -> None:
    """Add it: outside of ``/v1``, where every Prometheus looks."""

    @api.get(
        PATH,
        operation_id="metrics.read",
        tags=["metrics"],
        summary="All series as text, for Prometheus.",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}, "description": "The series."}},
        openapi_extra={"x-permission": Permission.METRICS_READ},
    )
    async def metrics(request: Request) -> Response:
        def read() -> bytes:
            who = service.admitted(request, Permission.METRICS_READ, changes=False)
            who.grants.require(Permission.METRICS_READ)
            return newest(service)

        return Response(await to_thread.run_sync(read), media_type=CONTENT_TYPE)


def newest(service: Service) -> bytes:
    """The series of now; FiguresTooOld where there are none: old ones would pass for new."""
    config = service.app.config
    files = TelemetryFiles(config.telemetry_folder)
    found = files.series(time.time(), config.telemetry_interval)
    if found is None:
        raise FiguresTooOld(
            "there are no series of now",
            why=f"`vgpumgr serve` renews them in {config.telemetry_folder}, and has not lately",
            next="systemctl status vgpumgr-serve; it has to run on this machine, on this ledger",
        )
    return found
