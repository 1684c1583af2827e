"""Compute instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from vgpumgr.catalog import CiProfile
from vgpumgr.sim.nvidia.compute import GpuInstance
from vgpumgr.sim.nvidia.nvml.arguments import (
    Failed,
    check_version,
    number,
    place,
    put,
    put_handle,
    put_handles,
    put_placements,
)
from vgpumgr.sim.nvidia.nvml.host import bus, compute, compute_handle, instance, instance_handle

# nvml.h's number of a profile is its id, as far as the catalogue knows any.


def _profile_info(handle: Any, profile: Any, engine_profile: Any, info: Any) -> None:
    _, inside = instance(handle)
    if number(engine_profile) != pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED:
        raise Failed(pynvml.NVML_ERROR_NOT_SUPPORTED)
    _fill(place(info), inside.compute_profile(number(profile)))


def _profile_info_versioned(handle: Any, profile: Any, engine_profile: Any, info: Any) -> None:
    check_version(place(info), pynvml.nvmlComputeInstanceProfileInfo_v2)
    _profile_info(handle, profile, engine_profile, info)


def _fill(info: Any, profile: CiProfile) -> None:
    info.id = profile.id
    info.sliceCount = profile.slices
    info.instanceCount = profile.max_instances
    if hasattr(info, "name"):
        info.name = f"MIG {profile.name}".encode()


def _remaining(handle: Any, profile_id: Any, count: Any) -> None:
    put(count, instance(handle)[1].remaining(number(profile_id)))


def _placements(handle: Any, profile_id: Any, array: Any, count: Any) -> None:
    inside = instance(handle)[1]
    wanted = inside.compute_profile(number(profile_id))
    starts = range(inside.profile.gpu_slices - wanted.slices + 1)
    put_placements(count, array, [(start, wanted.slices) for start in starts])


def _create(handle: Any, profile_id: Any, created: Any) -> None:
    _make(handle, number(profile_id), None, created)


def _create_at(handle: Any, profile_id: Any, placement: Any, created: Any) -> None:
    _make(handle, number(profile_id), int(place(placement).start), created)


def _make(handle: Any, profile_id: int, start: int | None, created: Any) -> None:
    """A guest has taken the compute slices of the GPU instance it runs in."""
    asked, inside = instance(handle)
    if asked.guest_in(inside):
        raise Failed(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
    made = inside.create_compute(profile_id, start)
    put_handle(created, compute_handle(asked, inside, made))


def _destroy(handle: Any) -> None:
    _, inside, found = compute(handle)
    inside.destroy_compute(found.id)


def _instances(handle: Any, profile_id: Any, array: Any, count: Any) -> None:
    asked, inside = instance(handle)
    wanted = inside.compute_profile(number(profile_id))
    found = [each for each in inside.compute.values() if each.profile is wanted]
    handles = [compute_handle(asked, inside, each) for each in found]
    put_handles(count, array, handles, pynvml.c_nvmlComputeInstance_t)


def _by_id(handle: Any, compute_id: Any, found: Any) -> None:
    asked, inside = instance(handle)
    there = _there(inside, number(compute_id))
    put_handle(found, compute_handle(asked, inside, inside.compute[there]))


def _there(inside: GpuInstance, compute_id: int) -> int:
    if compute_id not in inside.compute:
        raise Failed(pynvml.NVML_ERROR_NOT_FOUND)
    return compute_id


def _info(handle: Any, info: Any) -> None:
    asked, inside, found = compute(handle)
    filled = place(info)
    filled.device = pynvml.cast(bus(asked), pynvml.c_nvmlDevice_t)
    filled.gpuInstance = pynvml.cast(instance_handle(asked, inside), pynvml.c_nvmlGpuInstance_t)
    filled.id = found.id
    filled.profileId = found.profile.id
    filled.placement.start, filled.placement.size = found.start, found.profile.slices


FUNCTIONS: dict[str, Callable[..., None]] = {
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": _profile_info,
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": _profile_info_versioned,
    "nvmlGpuInstanceGetComputeInstanceRemainingCapacity": _remaining,
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements": _placements,
    "nvmlGpuInstanceCreateComputeInstance": _create,
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement": _create_at,
    "nvmlGpuInstanceGetComputeInstances": _instances,
    "nvmlGpuInstanceGetComputeInstanceById": _by_id,
    "nvmlComputeInstanceGetInfo_v2": _info,
    "nvmlComputeInstanceDestroy": _destroy,
}
