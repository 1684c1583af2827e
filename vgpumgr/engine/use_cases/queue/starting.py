"""VMs that start, made new or brought back from the shelf."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from vgpumgr.engine.planning.plan import describe
from vgpumgr.engine.reserving.shelving import unshelving
from vgpumgr.engine.running import operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import apply
from vgpumgr.engine.use_cases.queue.deciding import Ready, looked_at
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Interrupted, LedgerError, StaleGeneration, VgpumgrError
from vgpumgr.model.plan import Action, ActionKind, Plan
from vgpumgr.model.queue import Reservation, Start
from vgpumgr.model.queued import QueueEntry, QueueMoved, QueueState
from vgpumgr.model.vm import VmState

# They are about more than the VMs that were to start.
_OF_ALL = (StaleGeneration, LedgerError, Interrupted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What became of those that were to start; ``refused`` says why by the entry's id. ``kept`` is
    the room that is kept for others.
    """

    outcome: Outcome = field(default_factory=Outcome)
    refused: dict[str, str] = field(default_factory=dict)
    kept: tuple[Reservation, ...] = ()


def start(session: Session, ready: Ready, kept: Sequence[Reservation]) -> Started:
    """Those that need nobody to be stopped: new ones, or where there are none, shelved ones.

    One that is refused before anything is done keeps nobody else from it.
    """
    view, turn = looked_at(session, ready, kept)
    known = {vm.name for vm in view.vms}
    chosen = [each for each in turn.starts if not each.preempts]
    new = [each for each in chosen if each.waiting.vm.name not in known]
    work = _make if new else _unshelve
    found = _each(session, view, new or chosen, work) if chosen else Started()
    return replace(found, kept=turn.reservations)


def _each(
    session: Session,
    view: LedgerView,
    chosen: Sequence[Start],
    work: Callable[[Session, LedgerView, Sequence[Start]], Outcome],
) -> Started:
    """All at once, or where that is refused the first that can; the rest has another turn."""
    entries = {each.name: each for each in view.queue}
    groups = _groups(chosen)
    refused: dict[str, str] = {}
    for group in (chosen, *groups) if len(groups) > 1 else groups:
        try:
            outcome = work(session, view, group)
        except _OF_ALL:
            raise
        except VgpumgrError as error:
            if group is not chosen:
                refused |= {entries[each.waiting.vm.name].id: str(error) for each in group}
            continue
        refused |= _taken_back(outcome, entries)
        return Started(outcome=outcome, refused=refused)
    return Started(refused=refused)


def _groups(chosen: Iterable[Start]) -> list[list[Start]]:
    """Those that start together, and each of the others."""
    found: dict[tuple[str, str], list[Start]] = {}
    for each in chosen:
        together = each.waiting.terms.together
        name = "" if together else each.waiting.vm.name
        found.setdefault((together, name), []).append(each)
    return list(found.values())


def _taken_back(outcome: Outcome, entries: dict[str, QueueEntry]) -> dict[str, str]:
    done = {each.vm for each in outcome.done}
    return {
        entries[each.vm].id: str(each.error or each.state)
        for each in outcome.vms
        if each.vm not in done
    }


def _make(session: Session, view: LedgerView, new: Sequence[Start]) -> Outcome:
    return apply.carry_out(session, Plan(actions=tuple(map(_creation, new))), view)


def _creation(start: Start) -> Action:
    placed = start.placed
    return Action(
        kind=ActionKind.CREATE,
        vm=placed.request,
        host=placed.host,
        placed=placed,
        details=tuple(describe(placed)),
    )


def _unshelve(session: Session, view: LedgerView, back: Sequence[Start]) -> Outcome:
    placed = {each.waiting.vm.name: each.placed for each in back}
    vms = [vm for vm in view.vms if vm.name in placed and vm.state is VmState.SHELVED]
    entries = {each.vm_id: each for each in view.queue}
    moves = [
        QueueMoved(
            entry=entries[vm.id].id,
            before=QueueState.WAITING,
            state=QueueState.RUNNING,
            vm_id=vm.id,
        )
        for vm in vms
    ]
    start = unshelving(
        {vm.id: placed[vm.name] for vm in vms}, view, session.opening(), kind="queue", moves=moves
    )
    return operations.begin(session, start)
