"""The controller's epoch: a host keeps the highest it has seen and refuses a lower one."""

from __future__ import annotations

from vgpumgr.helper import errors, state
from vgpumgr.helper.call import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System


def current(system: System) -> int:
    """The highest epoch seen; 0 on a host that saw none."""
    try:
        text = system.read(state.EPOCH).strip()
    except FileNotFoundError:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise HelperError(errors.UNKNOWN, "the host's epoch is damaged", f"{state.EPOCH}: {text!r}")
    return int(text)


def check(call: Call) -> None:
    """Refuse an older controller; remember a newer one before it does anything."""
    seen = current(call.system)
    if call.epoch < seen:
        raise HelperError(
            errors.STALE_EPOCH,
            "this controller was superseded",
            f"it speaks for epoch {call.epoch}, the host has seen {seen}",
        )
    if call.epoch > seen:
        state.store(call.system, state.EPOCH, f"{call.epoch}\n")
