"""MIG as NVML shows it: mode, profiles with their places, GPU and compute instances."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vgpumgr.helper import errors
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia.nvml_session import NvmlSession

# NVML_GPU_INSTANCE_PROFILE_COUNT, NVML_COMPUTE_INSTANCE_PROFILE_COUNT: numbers of NVML's own
# enumeration, from which it gives a profile's id. A profile the board lacks is NotSupported.
_GPU_PROFILES, _COMPUTE_PROFILES = range(0x12), range(0x9)
# No board has more instances of a profile, or places for one.
_MOST = 64
_PREFIX = "MIG "


@dataclass(frozen=True)
class Compute:
    """A compute instance; ``handle`` lives as long as its session."""

    id: int
    profile_id: int
    handle: Any


@dataclass(frozen=True)
class NvmlInstance:
    """A GPU instance: ``start`` and ``size`` in slices of the memory grid."""

    id: int
    profile_id: int
    start: int
    size: int
    handle: Any

    def __str__(self) -> str:
        return f"instance {self.id} (profile {self.profile_id} at {self.start}:{self.size})"


def mode(session: NvmlSession, gpu: Any) -> tuple[bool, bool] | None:
    """(enabled, pending) as booleans; None where the board has no MIG.

    HelperError ``unknown`` where it could not be read.
    """
    modes = session.tell("the MIG mode could not be read", "nvmlDeviceGetMigMode", gpu)
    return None if modes is None else (modes[0] == 1, modes[1] == 1)


def facts(session: NvmlSession, gpu: Any) -> dict[str, Any] | None:
    """The ``mig`` object of a probe; None where there is no MIG, or its mode is not told.

    Its ``instances`` are None where they may not be read, its ``types`` where they are not told.
    """
    try:
        modes = mode(session, gpu)
    except HelperError:
        return None
    if modes is None:
        return None
    found: dict[str, Any] = {"enabled": modes[0], "pending": modes[1], "profiles": []}
    found["types"] = vgpu_types(session, gpu)
    if not modes[0]:
        return {**found, "profiles": _told_while_off(session, gpu), "instances": []}
    try:
        infos = list(_infos(session, gpu))
        found["profiles"] = [_profile_facts(session, gpu, info) for info in infos]
        return {**found, "instances": _instances_facts(session, gpu, infos)}
    except HelperError:
        return {**found, "instances": None}


def _told_while_off(session: NvmlSession, gpu: Any) -> list[dict[str, Any]]:
    """The profiles that there would be: R550 and later tell them (NVML's change log), others none.

    A board that no catalogue holds is planned by them.
    """
    try:
        told = [_profile_facts(session, gpu, info) for info in _infos(session, gpu)]
    except HelperError:
        return []
    return [each for each in told if each["starts"]]


def instances(session: NvmlSession, gpu: Any) -> list[NvmlInstance]:
    """Every GPU instance; none while MIG is off. HelperError where they could not be read."""
    modes = mode(session, gpu)
    if modes is None or not modes[0]:
        return []
    return _of_profiles(session, gpu, [int(info.id) for info in _infos(session, gpu)])


def _of_profiles(session: NvmlSession, gpu: Any, profile_ids: list[int]) -> list[NvmlInstance]:
    found = (_of_profile(session, gpu, profile_id) for profile_id in profile_ids)
    return sorted((each for some in found for each in some), key=lambda each: each.id)


def _of_profile(session: NvmlSession, gpu: Any, profile_id: int) -> list[NvmlInstance]:
    handles, count = (session.library.c_nvmlGpuInstance_t * _MOST)(), ctypes.c_uint(_MOST)
    message = "the GPU instances could not be read"
    given = (gpu, profile_id, handles, ctypes.byref(count))
    session.must(message, "nvmlDeviceGetGpuInstances", *given)
    return [described(session, handles[index]) for index in range(count.value)]


def described(session: NvmlSession, handle: Any) -> NvmlInstance:
    """What NVML says of one GPU instance."""
    info = session.must("a GPU instance could not be read", "nvmlGpuInstanceGetInfo", handle)
    place = info.placement
    return NvmlInstance(
        int(info.id), int(info.profileId), int(place.start), int(place.size), handle
    )


def by_id(session: NvmlSession, gpu: Any, number: int) -> NvmlInstance | None:
    """The GPU instance of that id; None where there is none."""
    return next((each for each in instances(session, gpu) if each.id == number), None)


def at(session: NvmlSession, gpu: Any, profile_id: int, start: int) -> NvmlInstance | None:
    """The GPU instance of that profile at that place; None where there is none."""
    found = (each for each in instances(session, gpu) if each.start == start)
    return next((each for each in found if each.profile_id == profile_id), None)


def computes(session: NvmlSession, instance: NvmlInstance) -> list[Compute]:
    """The compute instances in a GPU instance, by profile, then by id."""
    found = []
    message = "the compute instances could not be read"
    for number in _COMPUTE_PROFILES:
        function = "nvmlGpuInstanceGetComputeInstanceProfileInfo"
        profile = session.tell(message, function, instance.handle, number, 0, 1)
        if profile is not None:
            found += _computes(session, instance, int(profile.id))
    return found


def _computes(session: NvmlSession, instance: NvmlInstance, profile_id: int) -> list[Compute]:
    handles, count = (session.library.c_nvmlComputeInstance_t * _MOST)(), ctypes.c_uint(_MOST)
    message = "the compute instances could not be read"
    given = (instance.handle, profile_id, handles, ctypes.byref(count))
    session.must(message, "nvmlGpuInstanceGetComputeInstances", *given)
    infos = ((each, _compute_info(session, each)) for each in handles[: count.value])
    return [Compute(int(info.id), int(info.profileId), handle) for handle, info in infos]


def _compute_info(session: NvmlSession, handle: Any) -> Any:
    message = "a compute instance could not be read"
    return session.must(message, "nvmlComputeInstanceGetInfo", handle)


def _infos(session: NvmlSession, gpu: Any) -> Iterator[Any]:
    """The profiles that the board has; older libraries give them without a name."""
    for number in _GPU_PROFILES:
        info = session.ask("nvmlDeviceGetGpuInstanceProfileInfo", gpu, number, 2)
        if info is None and session.code == session.library.NVML_ERROR_FUNCTION_NOT_FOUND:
            info = session.ask("nvmlDeviceGetGpuInstanceProfileInfo", gpu, number, 1)
        if info is not None:
            yield info
        elif not session.absent():
            why = f"NVML: code {session.code}"
            raise HelperError(errors.UNKNOWN, "the MIG profiles could not be read", why)


def _name(info: Any) -> str | None:
    """``MIG 1g.10gb`` → ``1g.10gb``; None where the library gives no name."""
    name = getattr(info, "name", "")
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    return text.removeprefix(_PREFIX) or None


def _places(session: NvmlSession, gpu: Any, profile_id: int) -> list[Any]:
    places = (session.library.c_nvmlGpuInstancePlacement_t * _MOST)()
    count = ctypes.c_uint(_MOST)
    function = "nvmlDeviceGetGpuInstancePossiblePlacements"
    given = (gpu, profile_id, places, ctypes.byref(count))
    session.must("the places of a MIG profile could not be read", function, *given)
    return list(places[: count.value])


def _profile_facts(session: NvmlSession, gpu: Any, info: Any) -> dict[str, Any]:
    number = int(info.id)
    places = _places(session, gpu, number)
    return {
        "name": _name(info),
        "id": number,
        "slices": int(info.sliceCount),
        "size": int(places[0].size) if places else None,
        "starts": sorted(int(place.start) for place in places),
        "remaining": session.ask("nvmlDeviceGetGpuInstanceRemainingCapacity", gpu, number),
    }


def _instances_facts(session: NvmlSession, gpu: Any, infos: list[Any]) -> list[dict[str, Any]]:
    names = {int(info.id): _name(info) for info in infos}
    found = _of_profiles(session, gpu, list(names))
    return [_instance_facts(session, each, names[each.profile_id]) for each in found]


def _instance_facts(
    session: NvmlSession, instance: NvmlInstance, name: str | None
) -> dict[str, Any]:
    return {
        "id": instance.id,
        "profile": name,
        "profile_id": instance.profile_id,
        "start": instance.start,
        "size": instance.size,
        "compute": [
            {"id": each.id, "profile_id": each.profile_id} for each in computes(session, instance)
        ],
    }


# INVALID_GPU_INSTANCE_PROFILE_ID: the type is not MIG-backed.
_NO_INSTANCE = 0xFFFFFFFF
_MIB = 1 << 20


def vgpu_types(session: NvmlSession, gpu: Any) -> list[dict[str, Any]] | None:
    """One object for each MIG-backed type of the GPU.

    None where the driver does not tell the GPU-instance profile of every type: what is missing
    from a list may then be there.
    """
    numbers = session.ask("nvmlDeviceGetSupportedVgpus", gpu)
    if not numbers:
        return None
    told = [_told(session, int(number)) for number in numbers]
    if any(each is None for each in told):
        return None
    return [each for each in told if each]


def _told(session: NvmlSession, number: int) -> dict[str, Any] | None:
    """One type, empty where it is not MIG-backed; the same on all GPUs, so it is asked for once."""
    if number not in session.types:
        profile = session.ask("nvmlVgpuTypeGetGpuInstanceProfileId", number)
        if profile is None:
            return None
        found = _type(session, number, int(profile)) if profile != _NO_INSTANCE else {}
        session.types[number] = found
    return session.types[number]


def _type(session: NvmlSession, number: int, profile: int) -> dict[str, Any]:
    size = session.ask("nvmlVgpuTypeGetFramebufferSize", number)
    return {
        "id": number,
        "name": session.ask("nvmlVgpuTypeGetName", number),
        "profile_id": profile,
        "memory_mib": None if size is None else int(size) // _MIB,
        "per_instance": session.ask("nvmlVgpuTypeGetMaxInstancesPerGpuInstance", number),
        "per_vm": session.ask("nvmlVgpuTypeGetMaxInstancesPerVm", number),
    }
