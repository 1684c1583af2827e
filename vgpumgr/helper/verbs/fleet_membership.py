"""The verbs for a fleet's mark on a host: set at enrolment, removed when the host leaves."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import claims, errors, fleets, layout_claims
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError


def join(call: Call) -> dict[str, Any]:
    """The ``fleet_join`` verb: the host is one of the caller's fleet."""
    fleets.join(call.system, call.fleet)
    return {"fleets": list(fleets.enrolled(call.system))}


def leave(call: Call) -> dict[str, Any]:
    """The ``fleet_leave`` verb: the reverse; claims stay, and state that another needs."""
    fleets.leave(call.system, call.fleet)
    return {"fleets": list(fleets.enrolled(call.system))}


def forget(call: Call) -> dict[str, Any]:
    """The ``forget`` verb; refused while a claim of ours is left, or one of a fleet without a mark.

    Layouts of the caller's fleet hold nobody: the GPUs stay as they are until the next boot.
    """
    ours = _layouts(call)
    held = [unit for unit in _held(call) if unit not in ours]
    if held:
        raise HelperError(errors.IN_USE, "the host still carries claims", ", ".join(held))
    for unit in ours:
        claims.drop(call.system, unit)
    fleets.leave(call.system, call.fleet)
    return {"layouts": list(ours.values())}


def _held(call: Call) -> list[str]:
    """Every unit with a claim, but those of other fleets that enrolled the host: they stay."""
    others = set(fleets.enrolled(call.system)) - {call.fleet}
    found = claims.every(call.system)
    return [unit for unit, claim, _ in found if claim is None or claim["fleet"] not in others]


def _layouts(call: Call) -> dict[str, str]:
    """The GPUs that our fleet's layouts are for, by unit."""
    found = ((unit, claim) for unit, claim, _ in claims.every(call.system) if claim)
    return {
        unit: claim["wanted"]["gpu"]
        for unit, claim in found
        if claim["fleet"] == call.fleet and layout_claims.is_layout(claim)
    }
