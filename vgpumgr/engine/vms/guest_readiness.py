"""How a guest's state follows from what its agent told. Pure.

A guest is ready when its first boot is over and every check of its profiles is passed; the end of
cloud-init alone says nothing. A check that fails after that may be passed a moment later (a service
that is starting): the guest has failed after the time that the check's profile leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vgpumgr.guests.check_verdict import CheckVerdict
from vgpumgr.model.formats import span_words
from vgpumgr.model.guest import GuestPhase, GuestRecord

_SOONEST_S, _STARTING_S, _READY_S = 5.0, 30.0, 300.0
_FAILED_S, _LONGEST_S = 60.0, 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestLook:
    """A look at a guest: whether it ``runs``, whether its agent is ``mute``, and otherwise the
    first check that was not passed, None where all were. ``refused`` is why the agent runs no
    programs.
    """

    runs: bool = True
    mute: bool = False
    refused: str = ""
    failed: CheckVerdict | None = None


def after(before: GuestRecord, look: GuestLook, within_s: float, now: float) -> GuestRecord:
    """The record after a look at ``now``; the guest is to be ready ``within_s`` of its start."""
    if not look.runs:
        off = before.now(GuestPhase.UNKNOWN, "it is off", now)
        return replace(off, started=0.0, booted=0.0)
    if not before.started:
        before = replace(before, started=now).now(GuestPhase.STARTING, "", now)
    if look.refused:
        return before.now(GuestPhase.FAILED, f"its agent runs no programs: {look.refused}", now)
    if look.mute:
        return _not_yet(before, "its agent does not answer", within_s, now)
    failed = look.failed
    if failed is not None and failed.booting:
        return _not_yet(before, failed.why, within_s, now)
    before = before if before.booted else replace(before, booted=now)
    if failed is None:
        return before.now(GuestPhase.READY, "", now)
    if failed.final or before.phase is GuestPhase.FAILED or _is_settled(before, failed, now):
        return before.now(GuestPhase.FAILED, failed.why, now)
    return before.now(GuestPhase.STARTING, failed.why, now)


def _is_settled(before: GuestRecord, failed: CheckVerdict, now: float) -> bool:
    """Has a starting guest had the time in which a check may fail?"""
    if before.phase is not GuestPhase.STARTING:
        return False
    return now - max(before.booted, before.since) >= failed.settle_s


def _not_yet(before: GuestRecord, why: str, within_s: float, now: float) -> GuestRecord:
    """Starting still; failed where it had its time."""
    since = before.started
    if before.ready_at and before.phase is GuestPhase.STARTING:
        since = max(since, before.since)
    if before.phase is GuestPhase.FAILED:
        return before.now(GuestPhase.FAILED, before.why, now)
    if before.phase is not GuestPhase.READY and now - since > within_s:
        late = f"it was not ready within {span_words(within_s)}: {why}"
        return before.now(GuestPhase.FAILED, late, now)
    return before.now(GuestPhase.STARTING, why, now)


def pause_s(record: GuestRecord, now: float) -> float:
    """Seconds until the next look: the longer nothing changes, the longer."""
    lasted = max(0.0, now - record.since)
    match record.phase:
        case GuestPhase.READY:
            return _READY_S
        case GuestPhase.FAILED:
            return min(_LONGEST_S, max(_FAILED_S, lasted))
        case _:
            return min(_STARTING_S, max(_SOONEST_S, lasted / 10))
