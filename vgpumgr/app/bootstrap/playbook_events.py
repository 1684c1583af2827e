"""Events of a playbook run, its result for each host, and the reason of a failure in our words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from vgpumgr.app.bootstrap.variables import OWN_USER
from vgpumgr.model.errors import HostRefused, HostUnreachable, NotPermitted, VgpumgrError


class SetupOutcome(StrEnum):
    """How a task ended on a host; ``started`` is said once, before."""

    STARTED = "started"
    OK = "ok"
    CHANGED = "changed"
    FAILED = "failed"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookEvent:
    """A task. ``host`` is empty where it begins on all; ``diff`` a unified diff, or empty."""

    role: str
    task: str
    outcome: SetupOutcome
    host: str = ""
    message: str = ""
    diff: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetupEnd:
    """How the playbook ended on one host; ``reboot_due`` when it needs one that it did not get."""

    changed: tuple[PlaybookEvent, ...] = ()
    fault: PlaybookEvent | None = None
    ended: bool = False
    reboot_due: bool = False
    guests: tuple[str, ...] = field(default=())


def event_of(line: str) -> PlaybookEvent | None:
    """A task of ``plugins/callback/progress.py``; None for its end, and for what is none."""
    said = _object(line)
    if said.get("event") not in {"start", "task"}:
        return None
    return PlaybookEvent(
        role=str(said["role"]),
        task=str(said["task"]),
        outcome=SetupOutcome(said.get("outcome", SetupOutcome.STARTED)),
        host=str(said.get("host", "")),
        message=str(said.get("message", "")),
        diff=str(said.get("diff", "")),
    )


def end_of(line: str) -> Mapping[str, Mapping[str, Any]] | None:
    """What was left per host at the end; None for every other line."""
    said = _object(line)
    return said["hosts"] if said.get("event") == "end" else None


def ends(
    names: Iterable[str],
    events: Sequence[PlaybookEvent],
    left: Mapping[str, Mapping[str, Any]] | None,
) -> dict[str, HostSetupEnd]:
    """The end of every host, from all that was said."""
    return {
        name: _end(
            [each for each in events if each.host == name],
            left.get(name) if left is not None else None,
        )
        for name in names
    }


def _end(events: Sequence[PlaybookEvent], left: Mapping[str, Any] | None) -> HostSetupEnd:
    faults = [
        each for each in events if each.outcome in {SetupOutcome.FAILED, SetupOutcome.UNREACHABLE}
    ]
    return HostSetupEnd(
        changed=tuple(each for each in events if each.outcome is SetupOutcome.CHANGED),
        fault=faults[0] if faults else None,
        ended=left is not None,
        reboot_due=bool((left or {}).get("reboot_due")),
        guests=tuple((left or {}).get("guests", ())),
    )


def _object(line: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


MAX_WHY = 1500
_AGAIN = "the same command resumes where it stopped"
_NO_SUDO = re.compile(
    r"(?i)missing sudo password|a password is required|incorrect sudo password|"
    r"not in the sudoers|sudo: .*not found|may not run sudo"
)
_NOT_LET_IN = re.compile(r"Permission denied \([a-z,-]+\)")


def fault_of(name: str, user: str, end: HostSetupEnd) -> VgpumgrError | None:
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
    if fault.outcome is SetupOutcome.UNREACHABLE:
        return HostUnreachable(
            f"{name} could not be reached at: {where(fault)}", why=why, next=_AGAIN
        )
    return HostRefused(f"setting up {name} failed at: {where(fault)}", why=why, next=_AGAIN)


def _who(user: str) -> str:
    if user == OWN_USER:
        return "give the address of who may: root@…, or a user with sudo without a password"
    return f"let {user} use sudo without a password for the setup, or give root@… as address"


def where(event: PlaybookEvent) -> str:
    """``iommu: Add the arguments to the kernel line``."""
    return f"{event.role}: {event.task}" if event.role else event.task


def _lost(name: str) -> VgpumgrError:
    return HostRefused(f"the setup of {name} did not come to its end", next=_AGAIN)
