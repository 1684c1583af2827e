"""Taking the helper's state off a host that leaves the fleet."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import claims, errors, state
from vgpumgr.helper.call import Call
from vgpumgr.helper.errors import HelperError


def forget(call: Call) -> dict[str, Any]:
    """The ``forget`` verb; refused while a claim, of whatever fleet, is left."""
    held = claims.units(call.system)
    if held:
        raise HelperError(errors.IN_USE, "the host still carries claims", ", ".join(held))
    for folder in (state.CLAIMS, state.FOLDER):
        if call.system.exists(folder):
            for name in call.system.list(folder):
                state.remove(call.system, f"{folder}/{name}")
            state.remove(call.system, folder)
    return {}
