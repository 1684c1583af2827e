"""How vGPUs share a GPU: mixed-size mode, placements, the scheduler, capabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pynvml

from vgpumgr import catalog
from vgpumgr.catalog import VgpuType
from vgpumgr.model.layout import Scheduler
from vgpumgr.sim.nvidia import placements
from vgpumgr.sim.nvidia.gpu import NvidiaGpu
from vgpumgr.sim.nvidia.nvml.arguments import Failed, check_version, number, place, put
from vgpumgr.sim.nvidia.nvml.host import gpus, type_of
from vgpumgr.sim.nvidia.nvml.vgpus import vgpu_gpu

_POLICIES = {
    Scheduler.BEST_EFFORT: pynvml.NVML_VGPU_SCHEDULER_POLICY_BEST_EFFORT,
    Scheduler.EQUAL_SHARE: pynvml.NVML_VGPU_SCHEDULER_POLICY_EQUAL_SHARE,
    Scheduler.FIXED_SHARE: pynvml.NVML_VGPU_SCHEDULER_POLICY_FIXED_SHARE,
}
# nvmlDeviceVgpuCapability_t; the others are not known of any board.
_CAPABILITIES: dict[int, Callable[[NvidiaGpu], bool]] = {
    0: lambda asked: asked.model.fractional_multi_vgpu,
    1: lambda asked: asked.any_series,
    2: lambda asked: asked.sharing.capable,
    9: lambda asked: asked.model.same_size_ids_reported,
    10: lambda asked: any(each.max_per_gi > 1 for each in asked.types()),
}
_MS = 1_000_000


def _mixed_size(handle: Any, mode: Any) -> None:
    """NOT_SUPPORTED without the mode, and while MIG is on."""
    check_version(place(mode), pynvml.VgpuHeterogeneousMode_v1)
    asked = vgpu_gpu(handle)
    if not asked.sharing.capable or asked.mig.enabled:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    place(mode).mode = int(asked.sharing.mixed)


def _set_mixed_size(handle: Any, mode: Any) -> None:
    check_version(place(mode), pynvml.VgpuHeterogeneousMode_v1)
    vgpu_gpu(handle).set_mixed_size(bool(place(mode).mode))


def _supported_placements(handle: Any, type_id: Any, placed: Any) -> None:
    """The first version asks for mixed-size mode, the second says which mode."""
    asked = vgpu_gpu(handle)
    wanted = type_of(asked, type_id)
    same_size = getattr(place(placed), "mode", 0) == pynvml.NVML_VGPU_PGPU_HOMOGENEOUS_MODE
    ids = placements.supported(asked.model, wanted, mixed=not same_size)
    _put_placements(placed, asked, wanted, ids)


def _creatable_placements(handle: Any, type_id: Any, placed: Any) -> None:
    asked = vgpu_gpu(handle)
    wanted = type_of(asked, type_id)
    ids = placements.supported(asked.model, wanted, mixed=asked.sharing.mixed)
    _put_placements(placed, asked, wanted, ids, free_only=True)


def _put_placements(
    placed: Any,
    asked: NvidiaGpu,
    wanted: VgpuType,
    ids: Sequence[int],
    *,
    free_only: bool = False,
) -> None:
    """NOT_SUPPORTED where the driver has no ids; those inside a GPU instance are not asked here."""
    found = place(placed)
    check_version(found, pynvml.VgpuPlacementList_v1, pynvml.VgpuPlacementList_v2)
    if wanted.mig or not ids:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    if free_only:
        able = wanted in asked.creatable()
        ids = placements.creatable(asked.model, wanted, ids, asked.vgpus) if able else ()
    if found.version == pynvml.VgpuPlacementList_v2 and found.count < len(ids):
        raise Failed(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    found.placementSize = catalog.placement_size(asked.model, wanted)
    found.count = len(ids)
    for index, each in enumerate(ids):
        found.placementIds[index] = each


def _scheduler(handle: Any, state: Any) -> None:
    found = place(state)
    found.schedulerPolicy = _POLICIES[_scheduled(handle).sharing.policy]
    found.arrMode = pynvml.NVML_VGPU_SCHEDULER_ARR_DEFAULT


def _set_scheduler(handle: Any, state: Any) -> None:
    asked = _scheduled(handle)
    wanted = number(place(state).schedulerPolicy)
    if wanted not in _offered(asked):
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    asked.set_scheduler(next(each for each, code in _POLICIES.items() if code == wanted))


def _scheduler_capabilities(handle: Any, capabilities: Any) -> None:
    """The ranges of the module option RmPVMRL. Source: NVIDIA AI Enterprise 5.0 User Guide."""
    found = place(capabilities)
    for index, code in enumerate(_offered(_scheduled(handle))):
        found.supportedSchedulers[index] = code
    found.minTimeslice, found.maxTimeslice = 1 * _MS, 30 * _MS
    found.isArrModeSupported = 1
    found.minFrequencyForARR, found.maxFrequencyForARR = 63, 960
    found.minAvgFactorForARR, found.maxAvgFactorForARR = 1, 60


def _scheduled(handle: Any) -> NvidiaGpu:
    """NOT_SUPPORTED while MIG is on."""
    asked = vgpu_gpu(handle)
    if asked.mig.enabled:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return asked


def _offered(asked: NvidiaGpu) -> list[int]:
    """Maxwell boards know best effort alone."""
    policies = list(_POLICIES.values())
    return policies[:1] if asked.model.arch == "maxwell" else policies


def _capability(handle: Any, capability: Any, result: Any) -> None:
    asked = vgpu_gpu(handle)
    if number(capability) not in _CAPABILITIES:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    put(result, int(_CAPABILITIES[number(capability)](asked)))


def _driver_capability(capability: Any, result: Any) -> None:
    there = gpus()
    if number(capability) >= pynvml.NVML_VGPU_DRIVER_CAP_COUNT or not there:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    mixing = number(capability) == pynvml.NVML_VGPU_DRIVER_CAP_HETEROGENEOUS_MULTI_VGPU
    put(result, int(mixing and there[0].heterogeneous))


FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetVgpuHeterogeneousMode": _mixed_size,
    "nvmlDeviceSetVgpuHeterogeneousMode": _set_mixed_size,
    "nvmlDeviceGetVgpuTypeSupportedPlacements": _supported_placements,
    "nvmlDeviceGetVgpuTypeCreatablePlacements": _creatable_placements,
    "nvmlDeviceGetVgpuSchedulerState": _scheduler,
    "nvmlDeviceSetVgpuSchedulerState": _set_scheduler,
    "nvmlDeviceGetVgpuSchedulerCapabilities": _scheduler_capabilities,
    "nvmlDeviceGetVgpuCapabilities": _capability,
    "nvmlGetVgpuDriverCapabilities": _driver_capability,
}
