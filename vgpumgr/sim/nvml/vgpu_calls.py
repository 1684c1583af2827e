"""NVML's functions about vGPUs: types, running vGPUs, mixed-size mode, places, scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pynvml

from vgpumgr import catalog
from vgpumgr.catalog import VgpuType
from vgpumgr.model.layout import Scheduler
from vgpumgr.sim.nvidia import vgpus
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.nvml.c_arguments import (
    Failed,
    check_version,
    number,
    place,
    put,
    put_list,
    put_text,
)
from vgpumgr.sim.nvml.handles import (
    HOST,
    active_vgpu,
    gpu,
    gpus,
    type_of,
    vgpu_number,
    vgpu_type,
)

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


TYPE_FUNCTIONS: dict[str, Callable[..., None]] = {
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


_NO_PLACEMENT = 0xFFFF
_HOST_MODES = {
    "mdev-on-pf": pynvml.NVML_HOST_VGPU_MODE_NON_SRIOV,
    "sriov-vf": pynvml.NVML_HOST_VGPU_MODE_SRIOV,
}


def vgpu_gpu(handle: Any) -> NvidiaGpu:
    """The GPU; NOT_SUPPORTED where the board makes no vGPUs."""
    asked = gpu(handle)
    if asked.model.host_mode not in _HOST_MODES:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return asked


def _supported(handle: Any, count: Any, array: Any) -> None:
    put_list(count, array, [each.id for each in vgpu_gpu(handle).types() if each.id is not None])


def _creatable(handle: Any, count: Any, array: Any) -> None:
    found = vgpu_gpu(handle).creatable()
    put_list(count, array, [each.id for each in found if each.id is not None])


def _active(handle: Any, count: Any, array: Any) -> None:
    asked = vgpu_gpu(handle)
    put_list(count, array, [vgpu_number(asked, each) for each in asked.vgpus if each.vm])


def _host_mode(handle: Any, mode: Any) -> None:
    put(mode, _HOST_MODES[vgpu_gpu(handle).model.host_mode or ""])


def _virtualization_mode(handle: Any, mode: Any) -> None:
    makes = gpu(handle).model.host_mode is not None
    host, none = pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU, 0
    put(mode, host if makes else none)


def _vm_id(vgpu: Any, buffer: Any, length: Any, kind: Any) -> None:
    put_text(buffer, length, active_vgpu(vgpu)[1].vm_id)
    put(kind, pynvml.NVML_VGPU_VM_ID_UUID)


def _uuid(vgpu: Any, buffer: Any, length: Any) -> None:
    put_text(buffer, length, active_vgpu(vgpu)[1].uuid)


def _mdev_uuid(vgpu: Any, buffer: Any, length: Any) -> None:
    """NOT_SUPPORTED under the vendor-specific VFIO framework: the carrier is a VF."""
    carrier = active_vgpu(vgpu)[1].carrier
    if ":" in carrier:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    put_text(buffer, length, carrier)


def _type(vgpu: Any, type_id: Any) -> None:
    put(type_id, active_vgpu(vgpu)[1].type_id)


def _fb_usage(vgpu: Any, usage: Any) -> None:
    """Bytes that the guest uses: the vGPU itself takes all of its size."""
    owner, asked = active_vgpu(vgpu)
    load = HOST.get().activities[owner.address].load(asked)
    put(usage, int(load.framebuffer * (asked.type.fb_mib << 20)))


def _instance_id(vgpu: Any, instance_id: Any) -> None:
    found = active_vgpu(vgpu)[1].instance_id
    put(instance_id, _NO_INSTANCE if found is None else found)


def _placement_id(vgpu: Any, placement: Any) -> None:
    check_version(place(placement), pynvml.VgpuPlacementId_v1)
    found = active_vgpu(vgpu)[1].placement_id
    place(placement).placementId = _NO_PLACEMENT if found is None else found


def _ecc_mode(vgpu: Any, mode: Any) -> None:
    put(mode, int(active_vgpu(vgpu)[0].ecc.enabled))


VGPU_FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetSupportedVgpus": _supported,
    "nvmlDeviceGetCreatableVgpus": _creatable,
    "nvmlDeviceGetActiveVgpus": _active,
    "nvmlDeviceGetHostVgpuMode": _host_mode,
    "nvmlDeviceGetVirtualizationMode": _virtualization_mode,
    "nvmlVgpuInstanceGetVmID": _vm_id,
    "nvmlVgpuInstanceGetUUID": _uuid,
    "nvmlVgpuInstanceGetMdevUUID": _mdev_uuid,
    "nvmlVgpuInstanceGetType": _type,
    "nvmlVgpuInstanceGetFbUsage": _fb_usage,
    "nvmlVgpuInstanceGetGpuInstanceId": _instance_id,
    "nvmlVgpuInstanceGetPlacementId": _placement_id,
    "nvmlVgpuInstanceGetEccMode": _ecc_mode,
}


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
_MS, _NS_OF_US = 1_000_000, 1000
_SLICES_NS = (1 * _MS, 30 * _MS)


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
    ids = vgpus.supported_places(asked.model, wanted, mixed=not same_size)
    _put_placements(placed, asked, wanted, ids)


def _creatable_placements(handle: Any, type_id: Any, placed: Any) -> None:
    asked = vgpu_gpu(handle)
    wanted = type_of(asked, type_id)
    ids = vgpus.supported_places(asked.model, wanted, mixed=asked.sharing.mixed)
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
        ids = vgpus.creatable_places(asked.model, wanted, ids, asked.vgpus) if able else ()
    if found.version == pynvml.VgpuPlacementList_v2 and found.count < len(ids):
        raise Failed(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    found.placementSize = catalog.placement_size(asked.model, wanted)
    found.count = len(ids)
    for index, each in enumerate(ids):
        found.placementIds[index] = each


def _scheduler(handle: Any, state: Any) -> None:
    found = place(state)
    sharing = _scheduled(handle).sharing
    found.schedulerPolicy = _POLICIES[sharing.policy]
    found.arrMode = pynvml.NVML_VGPU_SCHEDULER_ARR_DEFAULT
    match sharing.timing:
        case (slice_us,):
            found.arrMode = pynvml.NVML_VGPU_SCHEDULER_ARR_DISABLE
            found.schedulerParams.vgpuSchedData.timeslice = slice_us * _NS_OF_US
        case (frequency, averaging):
            found.arrMode = pynvml.NVML_VGPU_SCHEDULER_ARR_ENABLE
            found.schedulerParams.vgpuSchedDataWithARR.timeslice = 10**9 // frequency
            found.schedulerParams.vgpuSchedDataWithARR.avgFactor = averaging


def _set_scheduler(handle: Any, state: Any) -> None:
    asked = _scheduled(handle)
    wanted = number(place(state).schedulerPolicy)
    if wanted not in _offered(asked):
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    policy = next(each for each, code in _POLICIES.items() if code == wanted)
    asked.set_scheduler(policy, _timing(place(state), policy))


def _timing(state: Any, policy: Scheduler) -> tuple[int, ...]:
    """INVALID_ARGUMENT outside the bounds, and for a policy that deals out no time."""
    mode, params = state.enableARRMode, state.schedulerParams
    if mode == pynvml.NVML_VGPU_SCHEDULER_ARR_DEFAULT:
        return ()
    if mode == pynvml.NVML_VGPU_SCHEDULER_ARR_DISABLE:
        slice_ns = params.vgpuSchedData.timeslice
        found: tuple[int, ...]
        found, fits = (slice_ns // _NS_OF_US,), _SLICES_NS[0] <= slice_ns <= _SLICES_NS[1]
    else:
        with_arr = params.vgpuSchedDataWithARR
        found = (with_arr.frequency, with_arr.avgFactor)
        fits = 63 <= with_arr.frequency <= 960 and 1 <= with_arr.avgFactor <= 60
    if not fits or policy is Scheduler.BEST_EFFORT:
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return found


def _scheduler_capabilities(handle: Any, capabilities: Any) -> None:
    """The ranges of the module option RmPVMRL. Source: NVIDIA AI Enterprise 5.0 User Guide."""
    found = place(capabilities)
    for index, code in enumerate(_offered(_scheduled(handle))):
        found.supportedSchedulers[index] = code
    found.minTimeslice, found.maxTimeslice = _SLICES_NS
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


SHARING_FUNCTIONS: dict[str, Callable[..., None]] = {
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
