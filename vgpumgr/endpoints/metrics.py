"""The endpoint of the series that Prometheus reads, for people and scripts."""

from __future__ import annotations

import time

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.errors import FiguresTooOld


class SeriesText(TypedDict):
    """All series in Prometheus' text format, as `serve` has written them last."""

    name: str
    text: str


def show_metrics(context: CallContext, _: Nothing) -> Result[SeriesText]:
    """The series of now."""
    return Result(answer={"name": "metrics", "text": newest_series(context).decode()})


def newest_series(context: CallContext) -> bytes:
    """The series of now; FiguresTooOld where there are none: old ones would pass for new."""
    config = context.app.config
    found = context.app.telemetry_files.series(time.time(), config.telemetry_interval)
    if found is None:
        raise FiguresTooOld(
            "there are no series of now",
            why=f"`vgpumgr serve` renews them in {config.telemetry_folder}, and has not lately",
            next="systemctl status vgpumgr-serve; it has to run on the machine that answers",
        )
    return found


SHOW_METRICS = Endpoint(
    name="metrics.show",
    method=HttpMethod.GET,
    path="/metrics",
    permission=Permission.METRICS_READ,
    summary="All series as text, in JSON.",
    asks=Nothing,
    answers=SeriesText,
    kind="Metrics",
    work=show_metrics,
)

ENDPOINTS = (SHOW_METRICS,)
