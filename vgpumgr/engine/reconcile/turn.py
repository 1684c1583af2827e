"""One turn of one host: look, bring back what a boot took, go on with what was cut, compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from vgpumgr.engine import drift
from vgpumgr.engine.observe import Observation
from vgpumgr.engine.reconcile import guests, lost, restore, settling
from vgpumgr.engine.reconcile.context import Turn, words
from vgpumgr.engine.reconcile.draining import drain_away, tidy_evacuated
from vgpumgr.engine.reconcile.recovery import Recovered, recover
from vgpumgr.engine.running.leftovers import unfinished
from vgpumgr.engine.running.run import CUT
from vgpumgr.engine.view import read_host_view
from vgpumgr.model.drift import DriftReport
from vgpumgr.model.errors import Conflict, LedgerError, NotFound, VgpumgrError
from vgpumgr.model.host import HostFacts, HostRecord, Membership
from vgpumgr.model.journal import TaskRecord
from vgpumgr.model.waits import WAITS


class TurnState(StrEnum):
    """How a turn ended."""

    OK = "ok"
    PARTLY_READ = "partly-read"
    UNREACHABLE = "unreachable"
    RETURNING = "returning"
    HELD = "held-by-another"
    STOPPED = "stopped"
    MAINTENANCE = "maintenance"
    JOINING = "joining"
    LEAVING = "leaving"
    NOT_ENROLLED = "not-enrolled"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """What a turn found. ``left`` are operations about the host that it could not end."""

    state: TurnState
    why: str = ""
    drifts: int = 0
    left: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worked(Recovered):
    """``returning``: the host has booted, and is not known to be whole again."""

    returning: bool = False


def take(turn: Turn) -> TurnEnd:
    """The whole turn of a host that no other controller works on; LedgerError ends it."""
    ledger, claim = turn.session.ledger, f"host:{turn.host}"
    if not ledger.claim(claim):
        return TurnEnd(state=TurnState.HELD)
    try:
        return _take(turn)
    finally:
        ledger.release(claim)


def _take(turn: Turn) -> TurnEnd:
    turn.lane.expect(WAITS.look_s)
    try:
        before = turn.session.ledger.host(turn.host)
    except NotFound:
        return TurnEnd(state=TurnState.NOT_ENROLLED)
    if before.at_rest:
        return _rest(turn, before)
    is_new = not before.settled_boot
    before = settling.remember_boot(turn, before)
    since, observed = _look(turn)
    error = observed.failed.get(turn.host)
    if error is not None and not isinstance(error, Conflict):
        lost.look_after(turn, before)
        return TurnEnd(state=TurnState.UNREACHABLE, why=words(error))
    turn.memory.off_since = None
    turn.lane.expect(WAITS.work_s)
    done = _work(turn, before, observed.facts.get(turn.host))
    turn.lane.expect(WAITS.look_s)
    if turn.session.stop.is_set():
        return TurnEnd(state=TurnState.STOPPED, left=done.left)
    if done.worked:
        since, observed = _look(turn)
    report = _compare(turn, before, observed, since, done.left)
    facts = observed.facts.get(turn.host)
    if not done.returning and _booted_meanwhile(turn, before, facts, report):
        return TurnEnd(state=TurnState.OK, left=done.left)
    # Of what a boot took, the host's return tells, until the host is whole.
    for event in turn.memory.known.update(report, settling.lacks(report) if done.returning else ()):
        turn.emit(event)
    if not done.returning:
        guests.ask(turn)
        if is_new:
            settling.tell_left_off(turn, report)
    return _end(turn, facts, report, done)


def _rest(turn: Turn, before: HostRecord) -> TurnEnd:
    """A host in maintenance may be off, one that joins or leaves has no helper: only what was cut,
    or left by evacuated VMs, is ended.
    """
    turn.lane.expect(WAITS.work_s)
    left = recover(turn).left
    if before.evacuated:
        _attempt(turn, tidy_evacuated)
    member = before.membership is Membership.MEMBER
    state = TurnState.MAINTENANCE if member else TurnState(before.membership.value)
    return TurnEnd(state=state, left=left)


def _look(turn: Turn) -> tuple[float, Observation]:
    since = turn.session.clock.now()
    observed = turn.session.refresh([turn.host])
    for line in observed.set_aside:
        turn.wait_for(line)
    return since, observed


def _work(turn: Turn, before: HostRecord, facts: HostFacts | None) -> _Worked:
    """Layouts first: what was cut may need them."""
    if facts is None:
        return _Worked()
    returning = settling.has_rebooted(before, facts)
    restoring = returning and _may_restore(turn, before, facts)
    worked = restoring and _attempt(turn, restore.restore_layouts)
    found = recover(turn)
    if found.worked:
        _look(turn)
    if restoring:
        worked = _attempt(turn, restore.restore_vms) or worked
        if worked:
            turn.shared.patience.failed(_boot(turn))  # unless the host turns out to be whole
    elif before.draining and not returning:
        worked = _attempt(turn, drain_away)
    return _Worked(worked=worked or found.worked, left=found.left, returning=returning)


def _may_restore(turn: Turn, before: HostRecord, facts: HostFacts) -> bool:
    settling.tell_reboot(turn, facts)
    why = restore.in_the_way(turn, facts)
    if why:
        turn.wait_for(f"nothing is restored: {why}", f"vgpumgr drift {turn.host}")
    return not why and not before.probe_only and turn.shared.patience.ready(_boot(turn))


def _boot(turn: Turn) -> str:
    return f"boot:{turn.host}"


def _attempt(turn: Turn, work: Callable[[Turn], bool]) -> bool:
    """Bring something back and look again; what refuses is told, and tried again later."""
    try:
        if not work(turn):
            return False
    except LedgerError:
        raise
    except VgpumgrError as error:
        turn.wait_for(words(error), error.next)
        if isinstance(error, CUT):
            return True
    _look(turn)
    return True


def _compare(
    turn: Turn, before: HostRecord, observed: Observation, since: float, left: frozenset[str]
) -> DriftReport:
    view = read_host_view(turn.session.ledger, turn.host)
    found = partial(_worked_on, turn, since, left)
    return drift.report(turn.session, [before], observed, view, found)


def _booted_meanwhile(
    turn: Turn, before: HostRecord, facts: HostFacts | None, report: DriftReport
) -> bool:
    """What a boot took is no difference: the next turn sees the boot, and brings it back.

    A look is several calls. A host that boots between them shows what it has now under its old
    boot, so where anything is lacking it is asked once more.
    """
    if facts is None or settling.has_rebooted(before, facts):
        return facts is not None
    if not settling.lacks(report):
        return False
    _, again = _look(turn)
    now = again.facts.get(turn.host)
    return now is None or settling.has_rebooted(before, now)


def _worked_on(turn: Turn, since: float, left: frozenset[str]) -> drift.Work:
    """What others did meanwhile, and what nobody could end."""
    ledger = turn.session.ledger
    busy: list[TaskRecord] = []
    interrupted: list[TaskRecord] = []
    for operation in ledger.operations(since=since):
        tasks = ledger.tasks(operation.id)
        if operation.id in left:
            interrupted += unfinished(tasks)
        else:
            busy += tasks
    return drift.Work(tuple(busy), tuple(interrupted))


def _end(turn: Turn, facts: HostFacts | None, report: DriftReport, done: _Worked) -> TurnEnd:
    whole = facts is not None and settling.settle(turn, facts, report, rebooted=done.returning)
    if whole:
        turn.shared.patience.done(_boot(turn))
    end = TurnEnd(state=TurnState.OK, drifts=len(report.drifts), left=done.left)
    if done.returning and not whole:
        return replace(end, state=TurnState.RETURNING, why="; ".join(turn.memory.waits))
    if report.not_read:
        first = report.not_read[0]
        return replace(end, state=TurnState.PARTLY_READ, why=f"{first.part}: {first.why}")
    return end
