"""One turn of the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from vgpumgr.engine.queue.limits import beyond
from vgpumgr.engine.running.outcome import VmOutcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.attempts import until_current
from vgpumgr.engine.use_cases.queue.deciding import Ready, decided
from vgpumgr.engine.use_cases.queue.ending import end
from vgpumgr.engine.use_cases.queue.preempting import make_room
from vgpumgr.engine.use_cases.queue.starting import start
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.placement import NotPlaced
from vgpumgr.model.queue import Reservation, Turn, Wait, Why
from vgpumgr.model.queued import QueueMoved, QueueState

# What started may let others start; the rest has another turn.
MOST_PASSES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """What a turn did. ``preempted`` maps VMs to whom they make room for; ``refused`` says of VMs
    that were to start why they wait on, ``failed`` are their entries. ``kept`` is the room that is
    kept for those who wait longest: the next turn is told.
    """

    ended: tuple[str, ...] = ()
    preempted: Mapping[str, str] = field(default_factory=dict)
    started: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    outcomes: tuple[VmOutcome, ...] = ()
    kept: tuple[Reservation, ...] = ()

    @property
    def any(self) -> bool:
        """Was anything begun?"""
        return bool(self.outcomes)


def outlook(session: Session) -> Turn:
    """What a turn would do by what was seen last; nothing is looked at, nothing changed."""
    view = session.view()
    turn = decided(session, view, lambda _: True, ())
    never = beyond(view, (each.waiting.vm for each in turn.waits if each.why is Why.ROOM))
    return replace(turn, waits=tuple(_never(each, never) for each in turn.waits))


def _never(wait: Wait, never: Mapping[str, NotPlaced]) -> Wait:
    """What can never fit is not said to wait for room."""
    found = never.get(wait.waiting.vm.name)
    if found is None:
        return wait
    nearest = found.reasons[-1].text if len(found.reasons) > 1 else "there is no host"
    text = f"no host of the fleet could ever hold it: {nearest}"
    return replace(wait, why=Why.NEVER, text=text)


def step(
    session: Session, ready: Ready = lambda _: True, kept: Sequence[Reservation] = ()
) -> Worked:
    """One turn. Entries (by id) that are not ``ready`` wait for a later one; ``kept`` is the room
    that the turn before kept.
    """
    if session.ledger.frozen() is not None or not session.ledger.queue():
        return Worked()
    gone, ends = until_current(partial(end, session))
    preempted, stops = until_current(partial(make_room, session, ready, kept))
    outcomes = [*ends.vms, *stops.vms]
    started: list[str] = []
    refused: dict[str, str] = {}
    for _ in range(MOST_PASSES):
        still = partial(_still, ready, refused)
        found = until_current(partial(start, session, still, kept))
        kept = found.kept
        refused |= found.refused
        outcomes += found.outcome.vms
        started += [each.vm for each in found.outcome.done]
        if not found.outcome.vms:
            break
    return Worked(
        ended=gone,
        preempted=preempted,
        started=tuple(started),
        refused=_told(session, refused),
        failed=tuple(refused),
        outcomes=tuple(outcomes),
        kept=tuple(kept),
    )


def _still(ready: Ready, refused: Mapping[str, str], entry: str) -> bool:
    return entry not in refused and ready(entry)


def _told(session: Session, refused: Mapping[str, str]) -> dict[str, str]:
    """Written down where it is not what it was before; by the VM's name."""
    waiting = [each for each in session.ledger.queue() if each.id in refused]
    state = QueueState.WAITING
    moves = [
        QueueMoved(entry=each.id, before=state, state=state, why=refused[each.id])
        for each in waiting
        if each.state is state and each.why != refused[each.id]
    ]
    if moves:
        try:
            session.ledger.move_queue(moves)
        except StaleGeneration:
            return {}  # cancelled meanwhile: nobody asks any more
    return {each.name: refused[each.id] for each in waiting}
