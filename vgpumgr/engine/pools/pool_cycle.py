"""One cycle of all pools: rows follow their VMs, the controller decides, the work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from vgpumgr.engine.desktops.desktop_state import doubted, looked, taken
from vgpumgr.engine.desktops.pool_decision import Refusal, assign, turn
from vgpumgr.engine.operations.operation_outcome import VmOutcome
from vgpumgr.engine.operations.session import Session
from vgpumgr.engine.pools import desktop_work
from vgpumgr.engine.pools.desktop_work import Done, work
from vgpumgr.engine.pools.pool_requests import Reading, read
from vgpumgr.model.desktop import (
    DesktopRecord,
    DesktopRequest,
    DesktopVerb,
    PoolAction,
    PoolDecision,
    PoolRecord,
    PoolView,
    PoolWarning,
)
from vgpumgr.model.errors import StaleGeneration

# What was made is looked at, and may call for more; the rest has another turn.
MOST_PASSES = 4
# May a desktop (or a pool: nothing is made) by its id be worked on now?
Ready = Callable[[str], bool]


@dataclass(slots=True)
class Worked:
    """What a turn did: rows that changed, what was refused by the desktop's name with the reason,
    the ids that are to wait, and what is to be warned of by pool.
    """

    moved: list[DesktopRecord] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    outcomes: list[VmOutcome] = field(default_factory=list)
    warnings: dict[str, tuple[PoolWarning, ...]] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Was anything begun?"""
        return bool(self.moved or self.outcomes)

    def take_in(self, done: Done) -> None:
        """Add what a pass did."""
        self.refused |= done.refused
        self.failed += done.failed
        self.outcomes += done.outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A pool's next turn, by user why who waits does so, and why no desktop more could be made;
    ``refused`` is empty where one could.
    """

    turn: PoolDecision
    waits: Mapping[str, str]
    refused: str = ""


def outlook(session: Session, name: str) -> Outlook:
    """What a pool's next turn would do by what was seen last; nothing is changed."""
    pool, reading = session.ledger.pool(name), read(session)
    view = reading.of(pool, reading.startable(pool))
    found = turn(view)
    given = {each.user: each.desktop for each in found.actions if each.do is DesktopVerb.ASSIGN}
    waits = {ask.user: _words(ask, view, given) for ask in view.asks}
    refused = "" if view.startable else desktop_work.refusal(session, reading, pool)
    return Outlook(turn=found, waits=waits, refused=refused)


def _words(ask: DesktopRequest, view: PoolView, given: Mapping[str, str]) -> str:
    if ask.user in given:
        return f"gets {given[ask.user]} in the next reconcile cycle"
    found = assign(view, ask)
    return found.text if isinstance(found, Refusal) else f"gets {found.desktop} soon"


def step(session: Session, ready: Ready = lambda _: True) -> Worked:
    """One turn. What is not ``ready`` waits for a later one."""
    worked = Worked()
    if session.ledger.frozen() is not None:
        return worked
    for _ in range(MOST_PASSES):
        if session.stop.is_set() or not session.ledger.pools():
            break
        if not _pass(session, worked, ready):
            break
    return worked


def _pass(session: Session, worked: Worked, ready: Ready) -> bool:
    """Was anything done that the next pass may build on?"""

    def still(id_: str) -> bool:
        return id_ not in worked.failed and ready(id_)

    moved = [*_look(session), *_decide(session, worked, still)]
    worked.moved += moved
    done = work(session, still)
    worked.take_in(done)
    return bool(moved or done.outcomes or done.refused)


def _look(session: Session) -> tuple[DesktopRecord, ...]:
    """Rows follow their VMs; nothing is said to have failed that was not asked twice."""
    reading = read(session)
    doubts = doubted(reading.rows, reading.seen) & {each.name for each in reading.view.hosts}
    if doubts:
        session.refresh(doubts)
        busy = reading.busy
        reading = read(session)
        reading = replace(reading, busy=busy | reading.busy)
    found = looked(reading.rows, reading.seen)
    return session.ledger.take_desktops(found) if found else ()


def _decide(session: Session, worked: Worked, ready: Ready) -> Iterable[DesktopRecord]:
    """Pool by pool, the most important first: each finds what the others left."""
    reading = read(session)
    for pool in sorted(reading.pools, key=lambda each: (-each.spec.priority, each.name)):
        reading = replace(reading, rows=session.ledger.desktops())
        found = turn(reading.of(pool, reading.startable(pool)))
        worked.warnings[pool.name] = found.warnings
        _end_asks(session, pool, reading)
        actions = [each for each in found.actions if _may(each, pool, reading, ready)]
        try:
            yield from _take(session, pool, found, actions, reading)
        except StaleGeneration:
            continue  # somebody else was faster: it has another turn


def _end_asks(session: Session, pool: PoolRecord, reading: Reading) -> None:
    """Who can get none, however long it waits, waits no more."""
    view = reading.of(pool)
    for ask in view.asks:
        found = assign(view, ask)
        if isinstance(found, Refusal) and not found.waits:
            session.ledger.end_ask(pool.id, ask.user)


def _may(action: PoolAction, pool: PoolRecord, reading: Reading, ready: Ready) -> bool:
    row = next((each for each in reading.rows if each.name == action.desktop), None)
    return ready(row.id) if row is not None else ready(pool.id)


def _take(
    session: Session,
    pool: PoolRecord,
    found: PoolDecision,
    actions: Iterable[PoolAction],
    reading: Reading,
) -> Iterable[DesktopRecord]:
    """Users first: whoever else gives desktops of the pool away meanwhile, it is one of the two."""
    ledger, rows = session.ledger, {each.name: each for each in reading.rows}
    now = reading.now
    moves = {
        each: move
        for each in actions
        if (move := taken(each, pool, rows.get(each.desktop), now, session.new_uuid()))
    }
    given = [move for each, move in moves.items() if each.do is DesktopVerb.ASSIGN]
    if given:
        yield from ledger.take_desktops(given, pool)
        pool = replace(pool, generation=pool.generation + 1)
    rest = [move for each, move in moves.items() if each.do is not DesktopVerb.ASSIGN]
    if rest:
        yield from ledger.take_desktops(rest)
    empty = not any(each.pool == pool.id for each in reading.rows)
    gone = now if pool.leaving and empty else None
    if found.rollout != pool.rollout or gone is not None:
        ledger.put_pool(replace(pool, rollout=found.rollout, closed_at=gone))
