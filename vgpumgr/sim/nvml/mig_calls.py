"""NVML's functions about MIG: the mode, GPU instances and compute instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from vgpumgr.catalog import Board, CiProfile, GiProfile, MigBoard
from vgpumgr.catalog.shipped_tables import table
from vgpumgr.sim.nvidia.mig_grid import SimGpuInstance
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.nvidia.rm_status import RmRefusal, RmStatus
from vgpumgr.sim.nvml.c_arguments import (
    Failed,
    check_version,
    number,
    place,
    put,
    put_handle,
    put_handles,
    put_placements,
)
from vgpumgr.sim.nvml.handles import bus, compute, compute_handle, gpu, instance, instance_handle

_FIELDS = {
    "dec": "decoderCount",
    "enc": "encoderCount",
    "jpeg": "jpegCount",
    "ofa": "ofaCount",
    "ce": "copyEngineCount",
}


def engines(board: Board, profile: GiProfile) -> dict[str, int]:
    """NVML's field names → counts; a number of multiprocessors that nobody has seen is 0."""
    device = board.vendor_device.partition(":")[2]
    card = next(each for each in table("mig_profiles")["gpus"] if device in each["pci_devices"])
    row = next(each for each in card["gi_profiles"] if each["name"] == profile.name)
    counts = {_FIELDS[name]: int(count) for name, count in row["engines"].items()}
    return {**counts, "multiprocessorCount": row["sm_count"] or 0}


# nvml.h's number of a profile: by what its name ends on, then by its compute slices.
_PLAIN = {1: 0x0, 2: 0x1, 3: 0x2, 4: 0x3, 7: 0x4, 8: 0x5, 6: 0x6}
_ENDINGS = {
    "+gfx": {1: 0xA, 2: 0xB, 4: 0xC, 3: 0x11},
    "-me": {1: 0xD, 2: 0xE},
    "+me.all": {1: 0xF, 2: 0x10},
    "+me": {1: 0x7, 2: 0x8},
}
_TWICE_THE_MEMORY = 0x9


def _mode(handle: Any, current: Any, pending: Any) -> None:
    mode = _capable(handle).mig
    put(current, int(mode.enabled))
    put(pending, int(mode.pending))


def _set_mode(handle: Any, mode: Any, activation: Any) -> None:
    status = _capable(handle).set_mig_mode(bool(number(mode)))
    code = pynvml.NVML_SUCCESS if status is None else getattr(pynvml, f"NVML_ERROR_{status}")
    put(activation, code)


def _capable(handle: Any) -> NvidiaGpu:
    asked = gpu(handle)
    if asked.mig.grid is None:
        raise RmRefusal(RmStatus.NOT_SUPPORTED)
    return asked


def _profile_info(handle: Any, profile: Any, info: Any) -> None:
    asked = _capable(handle)
    assert asked.mig.grid is not None
    board = asked.mig.grid.board
    for each in board.profiles:
        if _enumerated(board, each) == number(profile):
            return _fill(place(info), asked, each)
    raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)


def _profile_info_by_id(handle: Any, profile_id: Any, info: Any) -> None:
    asked = _capable(handle)
    assert asked.mig.grid is not None
    check_version(place(info), pynvml.nvmlGpuInstanceProfileInfo_v2)
    _fill(place(info), asked, asked.mig.grid.profile(number(profile_id)))


def _profile_info_versioned(handle: Any, profile: Any, info: Any) -> None:
    check_version(place(info), pynvml.nvmlGpuInstanceProfileInfo_v2)
    _profile_info(handle, profile, info)


def _enumerated(board: MigBoard, profile: GiProfile) -> int | None:
    for ending, numbers in _ENDINGS.items():
        if profile.name.endswith(ending):
            return numbers.get(profile.gpu_slices)
    smallest = min(each.size for each in board.profiles)
    if profile.gpu_slices == 1 and profile.size > smallest:
        return _TWICE_THE_MEMORY
    return _PLAIN.get(profile.gpu_slices)


def _fill(info: Any, asked: NvidiaGpu, profile: GiProfile) -> None:
    info.id = profile.id
    info.sliceCount = profile.gpu_slices
    info.instanceCount = profile.max_instances
    info.memorySizeMB = profile.memory_mib or 0
    for name, count in engines(asked.model, profile).items():
        setattr(info, name, count)
    if hasattr(info, "name"):
        info.name = f"MIG {profile.name}".encode()


def _remaining(handle: Any, profile_id: Any, count: Any) -> None:
    put(count, gpu(handle).grid().remaining(number(profile_id)))


def _placements(handle: Any, profile_id: Any, array: Any, count: Any) -> None:
    asked = _capable(handle)
    assert asked.mig.grid is not None
    grid = asked.mig.grid if asked.tells_places else asked.grid()
    profile = grid.profile(number(profile_id))
    put_placements(count, array, [(start, profile.size) for start in profile.starts])


def _create(handle: Any, profile_id: Any, created: Any) -> None:
    asked = gpu(handle)
    made = asked.grid().create(number(profile_id))
    put_handle(created, instance_handle(asked, made))


def _create_at(handle: Any, profile_id: Any, placement: Any, created: Any) -> None:
    asked = gpu(handle)
    grid = asked.grid()
    wanted = place(placement)
    if wanted.size != grid.profile(number(profile_id)).size:
        raise Failed(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    made = grid.create(number(profile_id), int(wanted.start))
    put_handle(created, instance_handle(asked, made))


def _destroy(handle: Any) -> None:
    asked, found = instance(handle)
    asked.destroy_instance(found.id)


def _instances(handle: Any, profile_id: Any, array: Any, count: Any) -> None:
    asked = gpu(handle)
    grid = asked.grid()
    wanted = grid.profile(number(profile_id))
    found = [each for each in grid.instances.values() if each.profile is wanted]
    handles = [instance_handle(asked, each) for each in found]
    put_handles(count, array, handles, pynvml.c_nvmlGpuInstance_t)


def _by_id(handle: Any, instance_id: Any, found: Any) -> None:
    asked = gpu(handle)
    there = asked.grid().instance(number(instance_id))
    put_handle(found, instance_handle(asked, there))


def _info(handle: Any, info: Any) -> None:
    asked, found = instance(handle)
    _describe(place(info), asked, found)


def _describe(info: Any, asked: NvidiaGpu, found: SimGpuInstance) -> None:
    info.device = pynvml.cast(bus(asked), pynvml.c_nvmlDevice_t)
    info.id = found.id
    info.profileId = found.profile.id
    info.placement.start, info.placement.size = found.start, found.profile.size


INSTANCE_FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetMigMode": _mode,
    "nvmlDeviceSetMigMode": _set_mode,
    "nvmlDeviceGetGpuInstanceProfileInfo": _profile_info,
    "nvmlDeviceGetGpuInstanceProfileInfoV": _profile_info_versioned,
    "nvmlDeviceGetGpuInstanceProfileInfoByIdV": _profile_info_by_id,
    "nvmlDeviceGetGpuInstanceRemainingCapacity": _remaining,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": _placements,
    "nvmlDeviceCreateGpuInstance": _create,
    "nvmlDeviceCreateGpuInstanceWithPlacement": _create_at,
    "nvmlDeviceGetGpuInstances": _instances,
    "nvmlDeviceGetGpuInstanceById": _by_id,
    "nvmlGpuInstanceGetInfo": _info,
    "nvmlGpuInstanceDestroy": _destroy,
}


# nvml.h's number of a profile is its id, as far as the catalogue knows any.


def _compute_profile(handle: Any, profile: Any, engine_profile: Any, info: Any) -> None:
    _, inside = instance(handle)
    if number(engine_profile) != pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    _fill_compute(place(info), inside.compute_profile(number(profile)))


def _compute_profile_versioned(handle: Any, profile: Any, engine_profile: Any, info: Any) -> None:
    check_version(place(info), pynvml.nvmlComputeInstanceProfileInfo_v2)
    _compute_profile(handle, profile, engine_profile, info)


def _fill_compute(info: Any, profile: CiProfile) -> None:
    info.id = profile.id
    info.sliceCount = profile.slices
    info.instanceCount = profile.max_instances
    if hasattr(info, "name"):
        info.name = f"MIG {profile.name}".encode()


def _remaining_computes(handle: Any, profile_id: Any, count: Any) -> None:
    put(count, instance(handle)[1].remaining(number(profile_id)))


def _compute_placements(handle: Any, profile_id: Any, array: Any, count: Any) -> None:
    inside = instance(handle)[1]
    wanted = inside.compute_profile(number(profile_id))
    starts = range(inside.profile.gpu_slices - wanted.slices + 1)
    put_placements(count, array, [(start, wanted.slices) for start in starts])


def _create_compute(handle: Any, profile_id: Any, created: Any) -> None:
    _make_compute(handle, number(profile_id), None, created)


def _create_compute_at(handle: Any, profile_id: Any, placement: Any, created: Any) -> None:
    _make_compute(handle, number(profile_id), int(place(placement).start), created)


def _make_compute(handle: Any, profile_id: int, start: int | None, created: Any) -> None:
    """A guest has taken the compute slices of the GPU instance it runs in."""
    asked, inside = instance(handle)
    if asked.guest_in(inside):
        raise Failed(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
    made = inside.create_compute(profile_id, start)
    put_handle(created, compute_handle(asked, inside, made))


def _destroy_compute(handle: Any) -> None:
    _, inside, found = compute(handle)
    inside.destroy_compute(found.id)


def _computes(handle: Any, profile_id: Any, array: Any, count: Any) -> None:
    asked, inside = instance(handle)
    wanted = inside.compute_profile(number(profile_id))
    found = [each for each in inside.compute.values() if each.profile is wanted]
    handles = [compute_handle(asked, inside, each) for each in found]
    put_handles(count, array, handles, pynvml.c_nvmlComputeInstance_t)


def _compute_by_id(handle: Any, compute_id: Any, found: Any) -> None:
    asked, inside = instance(handle)
    there = _existing_compute(inside, number(compute_id))
    put_handle(found, compute_handle(asked, inside, inside.compute[there]))


def _existing_compute(inside: SimGpuInstance, compute_id: int) -> int:
    if compute_id not in inside.compute:
        raise Failed(pynvml.NVML_ERROR_NOT_FOUND)
    return compute_id


def _compute_info(handle: Any, info: Any) -> None:
    asked, inside, found = compute(handle)
    filled = place(info)
    filled.device = pynvml.cast(bus(asked), pynvml.c_nvmlDevice_t)
    filled.gpuInstance = pynvml.cast(instance_handle(asked, inside), pynvml.c_nvmlGpuInstance_t)
    filled.id = found.id
    filled.profileId = found.profile.id
    filled.placement.start, filled.placement.size = found.start, found.profile.slices


COMPUTE_FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": _compute_profile,
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": _compute_profile_versioned,
    "nvmlGpuInstanceGetComputeInstanceRemainingCapacity": _remaining_computes,
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements": _compute_placements,
    "nvmlGpuInstanceCreateComputeInstance": _create_compute,
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement": _create_compute_at,
    "nvmlGpuInstanceGetComputeInstances": _computes,
    "nvmlGpuInstanceGetComputeInstanceById": _compute_by_id,
    "nvmlComputeInstanceGetInfo_v2": _compute_info,
    "nvmlComputeInstanceDestroy": _destroy_compute,
}
