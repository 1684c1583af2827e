"""NVLink and the NVSwitch fabric as a GPU sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from vgpumgr.sim.nvidia.nvml.arguments import Failed, check_version, number, place, put
from vgpumgr.sim.nvidia.nvml.host import gpu

_STATES = {
    "not-supported": pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED,
    "not-started": pynvml.NVML_GPU_FABRIC_STATE_NOT_STARTED,
    "in-progress": pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS,
    "completed": pynvml.NVML_GPU_FABRIC_STATE_COMPLETED,
}


def _module_id(handle: Any, module_id: Any) -> None:
    """A board that is not on a baseboard has none."""
    asked = gpu(handle)
    if asked.module_id is None:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    put(module_id, asked.module_id)


def _fabric_info(handle: Any, info: Any) -> None:
    found = place(info)
    found.state = _STATES[gpu(handle).fabric_state]
    found.status = pynvml.NVML_SUCCESS


def _fabric_info_versioned(handle: Any, info: Any) -> None:
    check_version(place(info), pynvml.nvmlGpuFabricInfo_v2, pynvml.nvmlGpuFabricInfo_v3)
    _fabric_info(handle, info)


def _nvlink_state(handle: Any, link: Any, active: Any) -> None:
    """INVALID_ARGUMENT past the last link, NOT_SUPPORTED without any."""
    links = gpu(handle).nvlinks
    if not links:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    if number(link) >= links:
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    put(active, 1)


FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetModuleId": _module_id,
    "nvmlDeviceGetGpuFabricInfo": _fabric_info,
    "nvmlDeviceGetGpuFabricInfoV": _fabric_info_versioned,
    "nvmlDeviceGetNvLinkState": _nvlink_state,
}
