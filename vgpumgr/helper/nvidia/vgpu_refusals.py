"""Refusals of NVIDIA's driver to make or end a vGPU on a VF, in words."""

from __future__ import annotations

import errno

from vgpumgr.helper import errors, pci
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import mig_state, nvml_session, vf_files
from vgpumgr.helper.system import System


def other_type(vf: str, now: int) -> HelperError:
    """The driver says EPERM for any type while there is one, the same included."""
    message = f"{vf} carries a vGPU of type {now} already"
    return HelperError(errors.IN_USE, message, "release it first", errno.errorcode[errno.EPERM])


def open_in_guest(vf: str, why: str, number: int) -> HelperError:
    """A guest has the vGPU open, or its plugin has not ended."""
    return HelperError(errors.IN_USE, f"the vGPU on {vf} is in use", why, errno.errorcode[number])


def check_creatable(system: System, vf: str, kind: int) -> None:
    """Refuse a type that the driver does not list; where it gives no list, let it decide."""
    listed = vf_files.creatable_if_told(system, vf)
    if listed is not None and kind not in listed:
        raise HelperError(errors.REFUSED, _message(vf, kind), _offer(system, vf, listed))


def of_type(system: System, vf: str, kind: int, error: OSError) -> HelperError:
    """What a failed write of a type means, from its errno and from what is there now."""
    now = vf_files.current(system, vf)
    if error.errno == errno.EPERM and now != 0:
        return other_type(vf, now)
    refusal = errors.from_effect(error, _message(vf, kind))
    if error.errno == errno.EIO:  # the resource manager's answer; its reason is in the kernel log
        listed = vf_files.creatable_if_told(system, vf)
        offer = "its list cannot be read" if listed is None else _offer(system, vf, listed)
        refusal.why = f"{refusal.why}; {offer}; see NVRM in the kernel log"
    return refusal


def _message(vf: str, kind: int) -> str:
    return f"the driver makes no vGPU of type {kind} on {vf}"


def _offer(system: System, vf: str, listed: list[int]) -> str:
    if listed:
        return f"it would make: {', '.join(str(each) for each in listed)}"
    return f"it would make nothing{_empty_mig(system, vf)}"


def _empty_mig(system: System, vf: str) -> str:
    """MIG on without an instance is the usual reason for an empty list (0x38)."""
    gpu = pci.physical(system, vf)
    if gpu is None:
        return ""
    try:
        with nvml_session.session(system) as session:
            handle = session.gpu(gpu)
            modes = mig_state.mode(session, handle)
            empty = bool(modes and modes[0]) and not mig_state.instances(session, handle)
    except HelperError:
        return ""
    return f": MIG is on and {gpu} has no GPU instance" if empty else ""
