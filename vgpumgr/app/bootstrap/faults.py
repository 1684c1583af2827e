"""Why a host could not be set up, in our words."""

from __future__ import annotations

import re

from vgpumgr.app.bootstrap.events import Event, HostEnd, Outcome
from vgpumgr.app.bootstrap.variables import OWN_USER
from vgpumgr.model.errors import HostRefused, HostUnreachable, NotPermitted, VgpumgrError

MAX_WHY = 1500
_AGAIN = "the same command resumes where it stopped"
_NO_SUDO = re.compile(
    r"(?i)missing sudo password|a password is required|incorrect sudo password|"
    r"not in the sudoers|sudo: .*not found|may not run sudo"
)
_NOT_LET_IN = re.compile(r"Permission denied \([a-z,-]+\)")


def fault_of(name: str, user: str, end: HostEnd) -> VgpumgrError | None:
    """The error of one host; None when the playbook ended there."""
    fault = end.fault
    if fault is None:
        return None if end.ended else _lost(name)
    why = fault.message[:MAX_WHY]
    if _NO_SUDO.search(fault.message):
        return NotPermitted(f"{user} may not become root on {name}", why=why, next=_who(user))
    if _NOT_LET_IN.search(fault.message):
        return NotPermitted(
            f"{name} refuses the login of {user}", why=why, next=f"ssh-copy-id {user}@HOST"
        )
    if fault.outcome is Outcome.UNREACHABLE:
        return HostUnreachable(
            f"{name} could not be reached at: {where(fault)}", why=why, next=_AGAIN
        )
    return HostRefused(f"setting up {name} failed at: {where(fault)}", why=why, next=_AGAIN)


def _who(user: str) -> str:
    if user == OWN_USER:
        return "give the address of who may: root@…, or a user with sudo without a password"
    return f"let {user} use sudo without a password for the setup, or give root@… as address"


def where(event: Event) -> str:
    """``iommu: Add the arguments to the kernel line``."""
    return f"{event.role}: {event.task}" if event.role else event.task


def _lost(name: str) -> VgpumgrError:
    return HostRefused(f"the setup of {name} did not come to its end", next=_AGAIN)
