"""The ``gpu_reset`` verb: one GPU that nothing uses is reset by its driver, and read back."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, claims, errors, pci, sysfs, wanted_state
from vgpumgr.helper.allowed_programs import NVIDIA_SMI
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.devices import carriers
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts import nvml_facts
from vgpumgr.helper.nvidia import clients, power_limits
from vgpumgr.helper.system import System

_RESET_SECONDS = 120.0
_BACK_SECONDS, _BACK_PAUSE = 30.0, 0.5
_NVIDIA = "nvidia"

Answer = dict[str, Any]


def reset(call: Call) -> Answer:
    """Refuse while anything uses it; reset it, and no other (``-i``); wait until NVML tells of it.

    ``refused`` where it asks for a reset afterwards as well. GPU instances and mixed-size mode are
    gone with it.
    """
    address = arguments.pci(call.args, "gpu")
    _require_unused(call.system, address)
    said = _run(call.system, address)
    power_limits.forget(call.system, address)
    if not sysfs.wait_until(
        call.system, lambda: _is_well(call.system, address), _BACK_SECONDS, _BACK_PAUSE
    ):
        clients.check_none(call.system, address)
        health, detail = _health(call.system, address)
        why = f"{said}; its health is {health or 'unknown'}: {detail or 'not told'}"
        raise HelperError(errors.REFUSED, f"{address} was not reset, or no better for it", why)
    health, detail = _health(call.system, address)
    return {"health": health, "health_detail": detail}


def _require_unused(system: System, address: str) -> None:
    message = f"{address} cannot be reset"
    driver = pci.driver(system, address)
    if driver != _NVIDIA:
        why = f"its driver is {driver or 'none'}, and NVIDIA's resets it"
        raise HelperError(errors.REFUSED, message, why)
    if pci.lost(system, address):
        why = "it fell off the bus: only a restart of the host may bring it back"
        raise HelperError(errors.REFUSED, message, why)
    carriers.require_no_vgpu(system, address, "it is not reset under a guest")
    _require_unclaimed(system, address)
    count = pci.vf_count(system, address)
    if count:
        why = f"{count} virtual functions are on: turn them off first"
        raise HelperError(errors.REFUSED, message, why, "EBUSY")
    clients.check_none(system, address)


def _require_unclaimed(system: System, address: str) -> None:
    """What a host has lost is still held; a claim that cannot be read stops, too."""
    for unit in claims.units(system):
        claim = claims.load(system, unit)
        if claim is None or claim["wanted"]["kind"] in (wanted_state.LAYOUT, wanted_state.FABRIC):
            continue
        if carriers.lives_on(system, claim["wanted"], address):
            message = f"{address} is in use: it is not reset under a guest"
            why = f"{unit} is claimed for {claim['vm']}"
            raise HelperError(errors.IN_USE, message, why, "EBUSY")


def _run(system: System, address: str) -> str:
    """What nvidia-smi said; its exit status tells nothing that is not read back."""
    try:
        status, output = system.run((NVIDIA_SMI, "--gpu-reset", "-i", address), _RESET_SECONDS)
    except OSError as error:
        raise errors.from_effect(error, f"{address} was not reset") from error
    if status:
        clients.check_none(system, address)
        why = f"nvidia-smi --gpu-reset ended with {status}: {output.strip()}"
        raise HelperError(errors.REFUSED, f"{address} was not reset", why)
    return f"nvidia-smi --gpu-reset ended with {status}"


def _is_well(system: System, address: str) -> bool:
    """NVML may not know the GPU for a moment after its reset."""
    health, _ = _health(system, address)
    return health in (nvml_facts.OK, nvml_facts.FAILED)


def _health(system: System, address: str) -> tuple[Any, Any]:
    parts = errors.ProbeParts()
    try:
        [found] = nvml_facts.gather(system, [address], parts)["gpus"]
    except HelperError as error:
        return None, error.why or error.message
    return found["health"], found["health_detail"]
