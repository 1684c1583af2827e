"""The newest figures of GPUs and of their parts in JSON; what was not told is null."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from vgpumgr.endpoints.shapes import Time
from vgpumgr.telemetry.use_history import gpu_key, part_key

if TYPE_CHECKING:
    from vgpumgr.app import App
    from vgpumgr.model.gpu_figures import Figures
    from vgpumgr.model.host_sample import FleetSample
    from vgpumgr.telemetry.current_figures import CurrentGpu, CurrentPart

_THROTTLED = "throttled_"


class GpuNow(TypedDict):
    """What a GPU measured ``at`` that time; shares are from 0 to 1. ``given_away``: a guest has
    all of it, and nothing of it is measured here.
    """

    at: Time
    given_away: bool
    utilization: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    temperature_c: int | None
    margin_c: int | None
    power_w: float | None
    power_limit_w: float | None
    clock_mhz: int | None
    throttled: list[str]
    recovery_action: int | None
    xids: dict[str, int] | None


class PartNow(TypedDict):
    """What a vGPU measured: the share of its GPU, its memory, its screens."""

    utilization: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    encoder_sessions: int | None
    frames_per_second: int | None
    licensed: bool | None


class TopPart(PartNow):
    """A part of a GPU; without a ``vm`` it is another's."""

    vm: str
    tenant: str
    profile: str
    device: str


# How busy something was in each minute of the last hour, the oldest first: null where that was not
# told; empty where nothing of the hour is kept.
Hour = list[float | None]


class TopGpu(GpuNow):
    """A GPU at work, with what VMs have of it; ``hour`` is how busy it was in each minute of the
    last hour, from 0 to 1, the oldest first.
    """

    name: str
    host: str
    device: str
    number: int
    model: str
    health: str
    hour: Hour
    parts: list[TopPart]


def newest_sample(app: App) -> FleetSample | None:
    """The figures that `serve` keeps on this machine; None where there are none of now."""
    return app.telemetry_files.sample(time.time())


def gpu_hour(app: App, gpu: str) -> Hour:
    """How busy a GPU (its id) was, minute by minute."""
    return app.telemetry_files.history().shares(gpu_key(gpu), time.time())


def part_hour(app: App, vm: str, device: str) -> Hour:
    """How much of its GPU's time a VM (its id) had with this device."""
    return app.telemetry_files.history().shares(part_key(vm, device), time.time())


def vms_hour(app: App, vms: Collection[str]) -> Hour:
    """The same of several VMs on average."""
    return app.telemetry_files.history().mean_shares(vms, time.time())


def gpu_now(gpu: CurrentGpu) -> GpuNow:
    """The JSON of what a GPU measured."""
    figures = gpu.figures
    return {
        "at": gpu.at,
        "given_away": gpu.frame.given_away,
        "utilization": _ratio(figures, "utilization_percent"),
        "memory_used_bytes": figures.get("framebuffer_used_bytes"),
        "memory_total_bytes": figures.get("framebuffer_total_bytes"),
        "temperature_c": figures.get("temperature_gpu_c"),
        "margin_c": figures.get("margin_c"),
        "power_w": _thousandth(figures, "power_mw"),
        "power_limit_w": _thousandth(figures, "limit_enforced_mw"),
        "clock_mhz": figures.get("clock_sm_mhz"),
        "throttled": [
            name.removeprefix(_THROTTLED)
            for name, value in figures.items()
            if name.startswith(_THROTTLED) and value
        ],
        "recovery_action": figures.get("recovery_action"),
        "xids": dict(gpu.told.xids) if gpu.told is not None and gpu.told.xids is not None else None,
    }


def part_now(part: CurrentPart) -> PartNow:
    """The JSON of what a part measured."""
    figures = part.figures
    licensed = figures.get("licensed")
    return {
        "utilization": _ratio(figures, "sm_percent"),
        "memory_used_bytes": figures.get("framebuffer_used_bytes"),
        "memory_total_bytes": figures.get("framebuffer_total_bytes"),
        "encoder_sessions": figures.get("encoder_sessions"),
        "frames_per_second": figures.get("capture_fps"),
        "licensed": None if licensed is None else bool(licensed),
    }


def top_gpu(gpu: CurrentGpu, hour: Hour, vms: Collection[str] | None = None) -> TopGpu:
    """The JSON of a GPU with its parts; where ``vms`` are given, with theirs alone."""
    record = gpu.frame.record
    return {
        "name": record.id,
        "host": record.host,
        "device": record.facts.device,
        "number": gpu.frame.number,
        "model": record.facts.model,
        "health": gpu.frame.health,
        **gpu_now(gpu),
        "hour": hour,
        "parts": [_top_part(each) for each in gpu.parts if _is_seen(each, vms)],
    }


def _is_seen(part: CurrentPart, vms: Collection[str] | None) -> bool:
    return vms is None or (part.part is not None and part.part.allocation.vm in vms)


def _top_part(part: CurrentPart) -> TopPart:
    held = part.part.allocation if part.part is not None else None
    return {
        "vm": held.vm if held is not None else "",
        "tenant": part.part.owner.tenant if part.part is not None else "",
        "profile": held.profile if held is not None else "?",
        "device": part.name,
        **part_now(part),
    }


def _ratio(figures: Figures, name: str) -> float | None:
    return figures[name] / 100 if name in figures else None


def _thousandth(figures: Figures, name: str) -> float | None:
    return figures[name] / 1000 if name in figures else None
