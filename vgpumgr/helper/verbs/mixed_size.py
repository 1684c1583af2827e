"""Mixed-size mode, which the driver calls heterogeneous. It is lost with the VFs."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, errors, pci
from vgpumgr.helper.call import Call
from vgpumgr.helper.devices import carriers
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import clients, mig, nvml
from vgpumgr.helper.nvidia.nvml import Session
from vgpumgr.helper.system import System


def set_mode(call: Call) -> dict[str, Any]:
    """The ``mixed_size_set`` verb: set, and read back."""
    address, enabled = arguments.pci(call.args, "gpu"), arguments.flag(call.args, "enabled")
    put(call.system, address, enabled=enabled)
    return {"enabled": enabled}


def put(system: System, address: str, *, enabled: bool) -> None:
    """Have the mode; ``refused`` where there is none."""
    if _mode(system, address) != enabled:
        _require_settable(system, address, enabled)
        _set(system, address, enabled)


def is_on(system: System, address: str) -> bool:
    """Whether the mode is on; a GPU that has none is not. HelperError where it was not told."""
    with nvml.session(system) as session:
        return bool(_told(session, session.gpu(address), address) == 1)


def _mode(system: System, address: str) -> bool:
    with nvml.session(system) as session:
        gpu = session.gpu(address)
        found = _told(session, gpu, address)
        if found is None:
            raise _unavailable(session, gpu, address)
    return bool(found == 1)


def _told(session: Session, gpu: Any, address: str) -> Any:
    message = f"mixed-size mode of {address} could not be read"
    return session.tell(message, "nvmlDeviceGetVgpuHeterogeneousMode", gpu)


def _unavailable(session: Session, gpu: Any, address: str) -> HelperError:
    modes = mig.mode(session, gpu)
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
    with nvml.session(system) as session:
        gpu = session.gpu(address)
        session.must(message, "nvmlDeviceSetVgpuHeterogeneousMode", gpu, int(enabled))
    if _mode(system, address) != enabled:
        raise HelperError(errors.REFUSED, message, "NVML took the call without effect")
