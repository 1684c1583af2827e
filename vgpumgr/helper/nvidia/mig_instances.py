"""Making and destroying MIG GPU instances with their compute instances, through NVML."""

from __future__ import annotations

import ctypes
import errno
from collections import Counter
from collections.abc import Sequence
from typing import Any

from vgpumgr.helper import errors
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import mig_state
from vgpumgr.helper.nvidia.mig_state import NvmlInstance
from vgpumgr.helper.nvidia.nvml_session import NvmlSession


def create(
    session: NvmlSession, gpu: Any, profile_id: int, start: int | None, size: int
) -> NvmlInstance:
    """Make one at ``start`` (None: where the driver likes) and read back where it is.

    One that is not in the wanted state is destroyed again, and ``refused`` names both.
    """
    message = f"no GPU instance of profile {profile_id} was made"
    try:
        handle = _create(session, gpu, profile_id, start, size)
    except session.library.NVMLError as error:
        raise _with_neighbours(session, gpu, session.refusal(error, message)) from error
    made = mig_state.described(session, handle)
    wanted = (profile_id, made.start if start is None else start, size)
    if (made.profile_id, made.start, made.size) != wanted:
        destroy(session, gpu, made)
        why = f"asked for profile {profile_id} at {wanted[1]}:{size}, the driver made {made}"
        raise HelperError(errors.REFUSED, message, why)
    return made


def destroy(session: NvmlSession, gpu: Any, instance: NvmlInstance) -> None:
    """Compute instances first, then the GPU instance; read back that it is gone."""
    message = f"{instance} was not destroyed"
    for compute in mig_state.computes(session, instance):
        session.must(message, "nvmlComputeInstanceDestroy", compute.handle)
    session.must(message, "nvmlGpuInstanceDestroy", instance.handle)
    if mig_state.by_id(session, gpu, instance.id) is not None:
        raise HelperError(errors.UNKNOWN, message, "NVML accepted it, and it is still there")


def add_computes(
    session: NvmlSession, instance: NvmlInstance, profile_ids: Sequence[int]
) -> list[int]:
    """Make the compute instances that are missing; the profile ids as read back.

    ``refused`` where others than these are there already.
    """
    there = Counter(each.profile_id for each in mig_state.computes(session, instance))
    wanted = Counter(profile_ids)
    if there - wanted:
        why = f"it has {_list(there)}, asked for {_list(wanted)}"
        raise HelperError(errors.REFUSED, f"{instance} has other compute instances", why)
    message = f"a compute instance was not made in {instance}"
    for profile_id in (wanted - there).elements():
        session.must(message, "nvmlGpuInstanceCreateComputeInstance", instance.handle, profile_id)
    found = Counter(each.profile_id for each in mig_state.computes(session, instance))
    if found != wanted:
        why = f"it has {_list(found)} afterwards, asked for {_list(wanted)}"
        raise HelperError(errors.REFUSED, message, why)
    return sorted(found.elements())


def require_mig(session: NvmlSession, gpu: Any, address: str) -> None:
    """Refuse where MIG is off or absent: NVML would say NotSupported, and not why."""
    modes = mig_state.mode(session, gpu)
    if modes is None or not modes[0]:
        why = "the board has no MIG" if modes is None else "turn MIG mode on first, by a Layout"
        raise HelperError(errors.REFUSED, f"MIG is off on {address}", why)


def _create(session: NvmlSession, gpu: Any, profile_id: int, start: int | None, size: int) -> Any:
    library = session.library
    if start is None:
        return library.nvmlDeviceCreateGpuInstance(gpu, profile_id)
    place = library.c_nvmlGpuInstancePlacement_t(start, size)
    return library.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile_id, ctypes.byref(place))


def _with_neighbours(session: NvmlSession, gpu: Any, refusal: HelperError) -> HelperError:
    """Say what is there where the driver says that there is no room."""
    if refusal.errno_name == errno.errorcode[errno.ENOSPC]:
        there = ", ".join(str(each) for each in mig_state.instances(session, gpu))
        refusal.why = f"{refusal.why}; there are {there or 'no instances'}"
    return refusal


def _list(profile_ids: Counter[int]) -> str:
    return ", ".join(str(each) for each in sorted(profile_ids.elements())) or "none"
