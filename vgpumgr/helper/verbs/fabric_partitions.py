"""The verbs for NVSwitch partitions: a VM's GPUs are those of one active partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from vgpumgr.helper import arguments, claims, errors, wanted_state
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.nvidia import nvswitch
from vgpumgr.helper.nvidia.nvswitch import FabricError
from vgpumgr.helper.system import System

T = TypeVar("T")

# Fabric Manager answers FM_ST_NOT_CONFIGURED while it starts.
_START_SECONDS, _START_PAUSE = 30.0, 1.0


def look(call: Call) -> dict[str, Any]:
    """The ``fabric_look`` verb: each partition with its claim."""
    system = call.system
    return {
        "partitions": [
            {**each, "claim": claims.load(system, unit_of(each["id"]))} for each in _listed(system)
        ]
    }


def activate(call: Call) -> dict[str, Any]:
    """The ``fabric_activate`` verb: claim, activate, read back. Repeating it is no error."""
    number = arguments.number(call.args, "partition")
    gpus = arguments.numbers(call.args, "gpus")
    presented = arguments.claim(call.args, "claim")
    want = {"kind": wanted_state.FABRIC, "partition": number, "gpus": sorted(gpus)}
    held = claims.may_take(call, unit_of(number), presented)
    if held:
        claims.require_same(held, want)
    found = _require(call.system, want)
    if found["active"] and not held:
        why = f"partition {number} is active, and no claim of ours made it so"
        raise HelperError(errors.IN_USE, f"partition {number} is in use", why)
    if not held:
        claims.put(call, unit_of(number), presented, want)
    try:
        make(call.system, want)
    except HelperError:
        if not _require(call.system, want)["active"]:
            claims.drop(call.system, unit_of(number))
        raise
    return {"active": True}


def deactivate(call: Call) -> dict[str, Any]:
    """The ``fabric_deactivate`` verb: deactivate, read back, then drop the claim."""
    system, number = call.system, arguments.number(call.args, "partition")
    presented = arguments.claim(call.args, "claim")
    claims.may_take(call, unit_of(number), presented)
    if _is_active(system, number):
        claims.must_hold(call, unit_of(number), presented)
        message = f"partition {number} was not deactivated"
        _change(system, message, "-d", number, active=False)
    claims.drop(system, unit_of(number))
    return {"active": False}


def unit_of(number: int) -> str:
    """The claim's name for a partition."""
    return f"fabric-{number}"


def make(system: System, want: dict[str, Any]) -> None:
    """Activate the partition of a claim unless it is active, and read back."""
    number = want["partition"]
    if not _require(system, want)["active"]:
        _change(system, f"partition {number} was not activated", "-a", number, active=True)


def _change(system: System, message: str, option: str, number: int, *, active: bool) -> None:
    _when_started(system, lambda: nvswitch.change(system, message, option, number))
    if _is_active(system, number) is not active:
        raise HelperError(errors.REFUSED, message, "fmpm said nothing, and it is as before")


def _require(system: System, want: dict[str, Any]) -> dict[str, Any]:
    """The partition as listed; refuse where it holds other GPUs than those asked for."""
    number = want["partition"]
    found = next((each for each in _listed(system) if each["id"] == number), None)
    if found is None:
        raise HelperError(errors.NOT_FOUND, f"no fabric partition {number}", "not in fmpm -l")
    gpus = sorted(gpu["physical_id"] for gpu in found["gpus"])
    if gpus != want["gpus"]:
        why = f"it holds {gpus}, asked for {want['gpus']}"
        raise HelperError(errors.REFUSED, f"partition {number} holds other GPUs", why)
    return found


def _is_active(system: System, number: int) -> bool:
    return any(each["active"] for each in _listed(system) if each["id"] == number)


def _listed(system: System) -> list[dict[str, Any]]:
    try:
        return _when_started(system, lambda: nvswitch.partitions(system))
    except FileNotFoundError as error:
        why = "build it from NVIDIA/Fabric-Manager-Client and put it into /usr/local/bin"
        raise HelperError(errors.NOT_FOUND, "fmpm is not installed", why) from error


def _when_started(system: System, ask: Callable[[], T]) -> T:
    for _ in range(round(_START_SECONDS / _START_PAUSE)):
        try:
            return ask()
        except FabricError as refused:
            if refused.number != nvswitch.NOT_CONFIGURED:
                raise
        system.wait(_START_PAUSE)
    return ask()
