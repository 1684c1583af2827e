"""What the playbook tells while it runs, line by line, and what that amounts to for each host."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """How a task ended on a host; ``started`` is said once, before."""

    STARTED = "started"
    OK = "ok"
    CHANGED = "changed"
    FAILED = "failed"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A task. ``host`` is empty where it begins on all; ``diff`` a unified diff, or empty."""

    role: str
    task: str
    outcome: Outcome
    host: str = ""
    message: str = ""
    diff: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEnd:
    """How the playbook ended on one host; ``reboot_due`` when it needs one that it did not get."""

    changed: tuple[Event, ...] = ()
    fault: Event | None = None
    ended: bool = False
    reboot_due: bool = False
    guests: tuple[str, ...] = field(default=())


def event_of(line: str) -> Event | None:
    """A task of ``plugins/callback/progress.py``; None for its end, and for what is none."""
    said = _object(line)
    if said.get("event") not in {"start", "task"}:
        return None
    return Event(
        role=str(said["role"]),
        task=str(said["task"]),
        outcome=Outcome(said.get("outcome", Outcome.STARTED)),
        host=str(said.get("host", "")),
        message=str(said.get("message", "")),
        diff=str(said.get("diff", "")),
    )


def end_of(line: str) -> Mapping[str, Mapping[str, Any]] | None:
    """What was left per host at the end; None for every other line."""
    said = _object(line)
    return said["hosts"] if said.get("event") == "end" else None


def ends(
    names: Iterable[str], events: Sequence[Event], left: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, HostEnd]:
    """The end of every host, from all that was said."""
    return {
        name: _end(
            [each for each in events if each.host == name],
            left.get(name) if left is not None else None,
        )
        for name in names
    }


def _end(events: Sequence[Event], left: Mapping[str, Any] | None) -> HostEnd:
    faults = [each for each in events if each.outcome in {Outcome.FAILED, Outcome.UNREACHABLE}]
    return HostEnd(
        changed=tuple(each for each in events if each.outcome is Outcome.CHANGED),
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
