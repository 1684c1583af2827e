"""The figures of a GPU's running vGPUs by NVML: one call tells the share of each in the GPU's time.

A vGPU is told by NVML's number of it, its mdev or the id of its VM, and its place.
"""

from __future__ import annotations

import calendar
from typing import Any

from vgpumgr.helper.nvidia.gpu_figures import Figures
from vgpumgr.helper.nvidia.nvml_session import NvmlSession

# 0xFFFFFFFF: no GPU instance; 0xFFFF: no placement id.
_NO_INSTANCE, _NO_PLACEMENT = 0xFFFFFFFF, 0xFFFF
# nvmlVgpuLicenseInfo_t: its states, and what its expiry is where it has one.
_LICENCE_UNKNOWN, _EXPIRY_VALID = 0, 2
_SHARES = {
    "sm_percent": "smUtil",
    "memory_percent": "memUtil",
    "encoder_percent": "encUtil",
    "decoder_percent": "decUtil",
}


def read(session: NvmlSession, gpu: Any) -> list[dict[str, Any]] | None:
    """One entry for each vGPU whose VM runs; None where the driver has none, or does not tell."""
    active = session.ask("nvmlDeviceGetActiveVgpus", gpu)
    if active is None:
        return None
    shares = _shares(session, gpu) if active else {}
    sizes: dict[int, int | None] = {}
    return [_vgpu(session, int(number), shares.get(int(number), {}), sizes) for number in active]


def _shares(session: NvmlSession, gpu: Any) -> dict[int, Figures]:
    """The newest sample of each vGPU; the older function knows no more than R545 needs."""
    samples = session.ask("nvmlDeviceGetVgpuInstancesUtilizationInfo", gpu, 0)
    if samples is None:
        samples = session.ask("nvmlDeviceGetVgpuUtilization", gpu, 0)
    return {int(each.vgpuInstance): _shares_of(each) for each in samples or ()}


def _shares_of(sample: Any) -> Figures:
    return {name: int(getattr(sample, field).uiVal) for name, field in _SHARES.items()}


def _vgpu(
    session: NvmlSession, number: int, shares: Figures, sizes: dict[int, int | None]
) -> dict[str, Any]:
    type_id = session.ask("nvmlVgpuInstanceGetType", number)
    instance = session.ask("nvmlVgpuInstanceGetGpuInstanceId", number)
    placement = session.ask("nvmlVgpuInstanceGetPlacementId", number)
    vm = session.ask("nvmlVgpuInstanceGetVmID", number)
    return {
        "number": number,
        "uuid": session.ask("nvmlVgpuInstanceGetUUID", number),
        "mdev": session.ask("nvmlVgpuInstanceGetMdevUUID", number),
        "vm": None if vm is None else _text(vm[0]),
        "type": type_id,
        "instance": None if instance == _NO_INSTANCE else instance,
        "placement_id": None if placement == _NO_PLACEMENT else placement,
        "figures": {
            **shares,
            **_memory(session, number, type_id, sizes),
            **_licence(session, number),
            **_display(session, number),
        },
    }


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _memory(
    session: NvmlSession, number: int, type_id: int | None, sizes: dict[int, int | None]
) -> Figures:
    """What the guest uses, and the size of the type: asked once for each type."""
    if type_id is not None and type_id not in sizes:
        sizes[type_id] = session.ask("nvmlVgpuTypeGetFramebufferSize", type_id)
    # nvidia-ml-py 13 has room for 32 bits where the library writes 64.
    used = session.ask_number("nvmlVgpuInstanceGetFbUsage", number)
    size = sizes.get(type_id) if type_id is not None else None
    told = {"framebuffer_used_bytes": used, "framebuffer_total_bytes": size}
    return {name: int(value) for name, value in told.items() if value is not None}


def _licence(session: NvmlSession, number: int) -> Figures:
    told = session.ask("nvmlVgpuInstanceGetLicenseInfo", number)
    if told is None or told.currentState == _LICENCE_UNKNOWN:
        return {}
    found = {"licensed": int(bool(told.isLicensed))}
    at = told.licenseExpiry
    if at.status == _EXPIRY_VALID:
        when = (at.year, at.month, at.day, at.hour, at.min, at.sec)
        found["license_expiry_s"] = calendar.timegm(tuple(map(int, when)))
    return found


def _display(session: NvmlSession, number: int) -> Figures:
    """The guest's screens as others see them: encoded, captured, limited."""
    found: Figures = {}
    encoder = session.ask("nvmlVgpuInstanceGetEncoderStats", number)
    if encoder is not None:
        found["encoder_sessions"] = int(encoder[0])
    capture = session.ask("nvmlVgpuInstanceGetFBCStats", number)
    if capture is not None:
        found["capture_fps"] = int(capture.averageFPS)
    limit = session.ask("nvmlVgpuInstanceGetFrameRateLimit", number)
    if limit is not None:
        found["frame_rate_limit"] = int(limit)
    return found
