"""Taking the helper's state off a host that leaves the fleet."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import claims, errors, layout_claims, state
from vgpumgr.helper.call import Call
from vgpumgr.helper.errors import HelperError


def forget(call: Call) -> dict[str, Any]:
    """The ``forget`` verb; refused while a claim, of whatever fleet, is left.

    Layouts of the caller's fleet hold nobody: the GPUs stay as they are until the next boot.
    """
    ours = _layouts(call)
    held = [unit for unit in claims.units(call.system) if unit not in ours]
    if held:
        raise HelperError(errors.IN_USE, "the host still carries claims", ", ".join(held))
    for folder in (state.CLAIMS, state.FOLDER):
        if call.system.exists(folder):
            for name in call.system.list(folder):
                state.remove(call.system, f"{folder}/{name}")
            state.remove(call.system, folder)
    return {"layouts": list(ours.values())}


def _layouts(call: Call) -> dict[str, str]:
    """The GPUs that our fleet's layouts are for, by unit."""
    found = ((unit, claim) for unit, claim, _ in claims.every(call.system) if claim)
    return {
        unit: claim["wanted"]["gpu"]
        for unit, claim in found
        if claim["fleet"] == call.fleet and layout_claims.is_layout(claim)
    }
