"""The verbs for how vGPUs share a GPU: mixed-size mode, and the scheduler's policy.

The driver calls mixed-size mode heterogeneous; it is lost with the VFs.
"""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, errors, pci, wanted_state
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.devices import carriers
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import clients, mig_state, nvml_session, vgpu_scheduler
from vgpumgr.helper.nvidia.nvml_session import NvmlSession
from vgpumgr.helper.system import System


def set_mixed_size(call: Call) -> dict[str, Any]:
    """The ``mixed_size_set`` verb: set, and read back."""
    address, enabled = arguments.pci(call.args, "gpu"), arguments.flag(call.args, "enabled")
    put_mixed_size(call.system, address, enabled=enabled)
    return {"enabled": enabled}


def put_mixed_size(system: System, address: str, *, enabled: bool) -> None:
    """Have the mode; ``refused`` where there is none."""
    if _mode(system, address) != enabled:
        _require_settable(system, address, enabled)
        _set(system, address, enabled)


def is_mixed_size(system: System, address: str) -> bool:
    """Whether the mode is on; a GPU that has none is not. HelperError where it was not told."""
    with nvml_session.session(system) as session:
        return bool(_told(session, session.gpu(address), address) == 1)


def _mode(system: System, address: str) -> bool:
    with nvml_session.session(system) as session:
        gpu = session.gpu(address)
        found = _told(session, gpu, address)
        if found is None:
            raise _unavailable(session, gpu, address)
    return bool(found == 1)


def _told(session: NvmlSession, gpu: Any, address: str) -> Any:
    message = f"mixed-size mode of {address} could not be read"
    return session.tell(message, "nvmlDeviceGetVgpuHeterogeneousMode", gpu)


def _unavailable(session: NvmlSession, gpu: Any, address: str) -> HelperError:
    modes = mig_state.mode(session, gpu)
    why = "NVML: Not Supported (the board, or its driver, has one size per GPU only)"
    if modes and modes[0]:
        why = "MIG is on: a GPU is split one way or the other"
    return HelperError(errors.REFUSED, f"{address} has no mixed-size mode", why)


def _require_settable(system: System, address: str, enabled: bool) -> None:
    if enabled and not pci.vf_count(system, address):
        why = "its VFs are off, and turning them on would clear the mode: turn them on first"
        raise HelperError(errors.REFUSED, f"mixed-size mode of {address} would be lost", why)
    carriers.require_no_vgpu(system, address, "mixed-size mode changes on an empty GPU only")
    clients.check_none(system, address)


def _set(system: System, address: str, enabled: bool) -> None:
    message = f"mixed-size mode of {address} was not changed"
    with nvml_session.session(system) as session:
        gpu = session.gpu(address)
        session.must(message, "nvmlDeviceSetVgpuHeterogeneousMode", gpu, int(enabled))
    if _mode(system, address) != enabled:
        raise HelperError(errors.REFUSED, message, "NVML took the call without effect")


def set_policy(call: Call) -> dict[str, Any]:
    """The ``scheduler_set`` verb: set, and read back."""
    address = arguments.pci(call.args, "gpu")
    policy = arguments.choice(call.args, "policy", wanted_state.POLICIES)
    given = call.args.get("timing")
    timing = None if given is None else wanted_state.timing(call.args, "timing")
    put_policy(call.system, address, policy, timing)
    return {"policy": policy}


def put_policy(system: System, address: str, policy: str, timing: list[int] | None = None) -> None:
    """Have this policy, with this timing where one is given, and read both back."""
    with nvml_session.session(system) as session:
        vgpu_scheduler.put(session, session.gpu(address), address, policy, timing)
