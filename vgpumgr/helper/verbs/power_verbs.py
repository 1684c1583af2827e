"""The verbs for a GPU's power limit and the lock of its clocks: set, and read back."""

from __future__ import annotations

from typing import Any

from vgpumgr.helper import arguments, wanted_state
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.nvidia import nvml_session, power_limits
from vgpumgr.helper.system import System


def set_limit(call: Call) -> dict[str, Any]:
    """The ``power_limit_set`` verb: ``watts``, 0 for the board's default."""
    address, watts = arguments.pci(call.args, "gpu"), wanted_state.watts(call.args, "watts")
    put_limit(call.system, address, watts)
    return {"watts": watts}


def lock(call: Call) -> dict[str, Any]:
    """The ``clocks_lock`` verb: ``range`` is [least, most] in MHz, or [] to unlock."""
    address, wanted = arguments.pci(call.args, "gpu"), wanted_state.clocks(call.args, "range")
    put_clocks(call.system, address, wanted)
    return {"range": wanted}


def put_limit(system: System, address: str, watts: int) -> None:
    """Have this limit, and read back what is enforced."""
    with nvml_session.session(system) as session:
        power_limits.put_limit(session, session.gpu(address), address, watts)


def put_clocks(system: System, address: str, wanted: list[int]) -> None:
    """Have the clocks locked so."""
    with nvml_session.session(system) as session:
        power_limits.lock_clocks(system, session, session.gpu(address), address, wanted)
