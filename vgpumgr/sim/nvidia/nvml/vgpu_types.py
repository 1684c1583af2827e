"""vGPU types as such: names, sizes, maxima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from vgpumgr import catalog
from vgpumgr.sim.nvidia.nvml.arguments import Failed, check_version, place, put, put_text
from vgpumgr.sim.nvidia.nvml.host import gpu, type_of, vgpu_type

_MIB = 1 << 20
_CLASSES = {"A": "NVS", "B": "NVS", "C": "Compute", "Q": "Quadro"}
_NO_INSTANCE = 0xFFFFFFFF


def _name(type_id: Any, buffer: Any, length: Any) -> None:
    put_text(buffer, length, vgpu_type(type_id).name)


def _class(type_id: Any, buffer: Any, length: Any) -> None:
    put_text(buffer, length, _CLASSES[vgpu_type(type_id).series])


def _frame_buffer(type_id: Any, size: Any) -> None:
    """Bytes."""
    put(size, vgpu_type(type_id).fb_mib * _MIB)


def _heads(type_id: Any, heads: Any) -> None:
    put(heads, _known(vgpu_type(type_id).heads))


def _frame_rate_limit(type_id: Any, limit: Any) -> None:
    put(limit, _known(vgpu_type(type_id).frl_fps))


def _resolution(type_id: Any, _head: Any, width: Any, height: Any) -> None:
    found = vgpu_type(type_id).resolution
    if not found:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    for reference, text in zip((width, height), found.split("x"), strict=True):
        put(reference, int(text))


def _instance_profile(type_id: Any, profile_id: Any) -> None:
    found = vgpu_type(type_id).mig_id
    put(profile_id, _NO_INSTANCE if found is None else found)


def _most(handle: Any, type_id: Any, most: Any) -> None:
    put(most, type_of(gpu(handle), type_id).max_gpu)


def _most_per_vm(type_id: Any, most: Any) -> None:
    put(most, catalog.limits().per_vm if vgpu_type(type_id).multi_vgpu else 1)


def _most_per_instance(info: Any) -> None:
    found = place(info)
    check_version(found, pynvml.nvmlVgpuTypeMaxInstance_v1)
    found.maxInstancePerGI = vgpu_type(found.vgpuTypeId).max_per_gi


def _known(value: int | None) -> int:
    """The catalogue does not know it: NVML's NOT_SUPPORTED rather than a guess."""
    if value is None:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return value


FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlVgpuTypeGetName": _name,
    "nvmlVgpuTypeGetClass": _class,
    "nvmlVgpuTypeGetFramebufferSize": _frame_buffer,
    "nvmlVgpuTypeGetNumDisplayHeads": _heads,
    "nvmlVgpuTypeGetFrameRateLimit": _frame_rate_limit,
    "nvmlVgpuTypeGetResolution": _resolution,
    "nvmlVgpuTypeGetGpuInstanceProfileId": _instance_profile,
    "nvmlVgpuTypeGetMaxInstances": _most,
    "nvmlVgpuTypeGetMaxInstancesPerVm": _most_per_vm,
    "nvmlVgpuTypeGetMaxInstancesPerGpuInstance": _most_per_instance,
}
