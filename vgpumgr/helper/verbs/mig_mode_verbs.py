"""MIG mode of one GPU, with the reset that older boards need before it takes effect."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, errors, pci, sysfs
from vgpumgr.helper.allowed_programs import NVIDIA_SMI
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import clients, mig_state, nvml_session, power_limits
from vgpumgr.helper.system import System

_RESET_SECONDS = 120.0
_BACK_SECONDS, _BACK_PAUSE = 10.0, 0.5


def set_mode(call: Call) -> dict[str, Any]:
    """The ``mig_mode_set`` verb: set, reset that GPU where the mode is pending, read back."""
    address, enabled = arguments.pci(call.args, "gpu"), arguments.flag(call.args, "enabled")
    put(call.system, address, enabled=enabled)
    return {"enabled": enabled, "pending": enabled}


def put(system: System, address: str, *, enabled: bool) -> None:
    """Have the mode; ``refused`` where the board has no MIG."""
    if _modes(system, address) != (enabled, enabled):
        _require_settable(system, address, enabled)
        _set(system, address, enabled)
        if _modes(system, address) != (enabled, enabled):
            _reset(system, address, enabled)
            power_limits.forget(system, address)


def has(system: System, address: str) -> bool:
    """Whether the board has MIG; HelperError where that could not be read."""
    with nvml_session.session(system) as session:
        return mig_state.mode(session, session.gpu(address)) is not None


def _modes(system: System, address: str) -> tuple[bool, bool]:
    """(enabled, pending); ``refused`` where the board has no MIG."""
    with nvml_session.session(system) as session:
        modes = mig_state.mode(session, session.gpu(address))
    if modes is None:
        raise HelperError(errors.REFUSED, f"{address} has no MIG", "NVML: Not Supported")
    return modes


def _require_settable(system: System, address: str, enabled: bool) -> None:
    """With VFs on, the driver would say "In use by another client" and not who it is."""
    message = f"MIG mode of {address} cannot be changed now"
    vfs = pci.vf_count(system, address)
    if vfs:
        why = f"{vfs} virtual functions are on: turn them off first"
        raise HelperError(errors.REFUSED, message, why, "EBUSY")
    if not enabled:
        left = _instances(system, address)
        if left:
            why = f"GPU instances are left, destroy them first: {', '.join(left)}"
            raise HelperError(errors.REFUSED, message, why, "EBUSY")
    clients.check_none(system, address)


def _instances(system: System, address: str) -> list[str]:
    with nvml_session.session(system) as session:
        return [str(each) for each in mig_state.instances(session, session.gpu(address))]


def _set(system: System, address: str, enabled: bool) -> None:
    """NVML accepts the call and may leave the mode pending: only reading back tells."""
    message = f"MIG mode of {address} was not changed"
    with nvml_session.session(system) as session:
        gpu = session.gpu(address)
        session.must(message, "nvmlDeviceSetMigMode", gpu, int(enabled))
        found = mig_state.mode(session, gpu)
    if found is not None and found[1] != enabled:
        raise HelperError(errors.REFUSED, message, "NVML took the call, and nothing is pending")


def _reset(system: System, address: str, enabled: bool) -> None:
    """Ampere takes the mode at a reset (-i: of this one GPU and no other)."""
    clients.check_none(system, address)
    message = f"MIG mode of {address} is pending, and the GPU was not reset"
    argv = (NVIDIA_SMI, "--gpu-reset", "-i", address)
    try:
        status, output = system.run(argv, _RESET_SECONDS)
    except OSError as error:
        raise errors.from_effect(error, message) from error
    wanted = (enabled, enabled)
    if not sysfs.wait_until(
        system, lambda: _is(system, address, wanted), _BACK_SECONDS, _BACK_PAUSE
    ):
        clients.check_none(system, address)
        why = f"nvidia-smi --gpu-reset ended with {status}: {output.strip()}"
        raise HelperError(errors.REFUSED, message, why)


def _is(system: System, address: str, wanted: tuple[bool, bool]) -> bool:
    """NVML may not know the GPU for a moment after its reset."""
    try:
        return _modes(system, address) == wanted
    except HelperError:
        return False
