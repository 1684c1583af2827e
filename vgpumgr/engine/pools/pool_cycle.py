"""One cycle of all pools: rows follow their VMs, the controller decides, the work is done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from vgpumgr.engine.desktops.desktop_state import hosts_to_ask_again, row_after, updated_rows
from vgpumgr.engine.desktops.load_history import TriggerState
from vgpumgr.engine.desktops.pool_decision import AssignmentRefusal, assign, decide_pool
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import VmOutcome
from vgpumgr.engine.pools import desktop_action_run
from vgpumgr.engine.pools.desktop_action_run import DesktopWorkReport, run_actions
from vgpumgr.engine.pools.pool_habits import PoolHabits
from vgpumgr.engine.pools.pool_loads import group_load
from vgpumgr.engine.pools.pool_reading import NO_HABITS, NO_WINDOWS, PoolReading, read
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
from vgpumgr.model.load_scale import LoadWindow

# What was made is looked at, and may call for more; the rest has another turn.
MOST_PASSES = 4
# May a desktop (or a pool: nothing is made) by its id be worked on now?
Ready = Callable[[str], bool]
_TAKE_AWAY = {DesktopVerb.RECREATE, DesktopVerb.UPDATE, DesktopVerb.SHELVE, DesktopVerb.DELETE}


@dataclass(slots=True)
class PoolCycleReport:
    """The result of a pool's reconcile cycle: rows that changed, refusals with their reasons by the
    desktop's name, ids of desktops that are to wait, and warnings by pool.
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

    def take_in(self, done: DesktopWorkReport) -> None:
        """Add what a pass did."""
        self.refused |= done.refused
        self.failed += done.failed
        self.outcomes += done.outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolForecast:
    """A pool's next reconcile cycle, the reasons for which users wait, and why no further desktop
    could be created; ``refused`` is empty where one could. ``triggers`` are those of its load now;
    ``expected`` how many users will probably come soon, None where the pool does not learn that.
    """

    turn: PoolDecision
    waits: Mapping[str, str]
    refused: str = ""
    triggers: tuple[TriggerState, ...] = ()
    expected: int | None = None


def forecast(context: EngineContext, name: str) -> PoolForecast:
    """The next cycle of a pool by the last observation; nothing is changed. What its load has asked
    for over time `serve` alone knows: here it takes no desktop away.
    """
    pool = context.ledger.pool(name)
    scaled = pool.spec.scale is not None
    expected = PoolHabits().expected(context)
    reading = read(context, {pool.id: LoadWindow()} if scaled else NO_WINDOWS, expected)
    view = reading.of(pool, reading.startable(pool))
    found = decide_pool(view)
    given = {each.user: each.desktop for each in found.actions if each.do is DesktopVerb.ASSIGN}
    waits = {ask.user: _words(ask, view, given) for ask in view.asks}
    refused = "" if view.startable else desktop_action_run.refusal(context, reading, pool)
    load = group_load(pool, reading.rows, reading.asks, context.loads.newest())
    triggers = tuple(load.states(pool.spec.scale)) if pool.spec.scale is not None else ()
    return PoolForecast(
        turn=found,
        waits=waits,
        refused=refused,
        triggers=triggers,
        expected=expected.get(pool.id),
    )


def _words(ask: DesktopRequest, view: PoolView, given: Mapping[str, str]) -> str:
    if ask.user in given:
        return f"gets {given[ask.user]} in the next reconcile cycle"
    found = assign(view, ask)
    return found.text if isinstance(found, AssignmentRefusal) else f"gets {found.desktop} soon"


def step(
    context: EngineContext,
    ready: Ready = lambda _: True,
    loads: Mapping[str, LoadWindow] = NO_WINDOWS,
    expected: Mapping[str, int] = NO_HABITS,
    held: Callable[[], Collection[str]] = frozenset,
) -> PoolCycleReport:
    """One cycle. What is not ``ready`` waits for a later one; ``loads`` is what the desktops' load
    asks for, ``expected`` how many users will probably come soon, both by the pool's id. Desktops
    that are ``held``, by their ids, are neither recreated nor deleted.
    """
    worked = PoolCycleReport()
    if context.ledger.frozen() is not None:
        return worked
    for _ in range(MOST_PASSES):
        if context.stop.is_set() or not context.ledger.pools():
            break
        if not _pass(context, worked, ready, partial(read, context, loads, expected), held()):
            break
    return worked


def _pass(
    context: EngineContext,
    worked: PoolCycleReport,
    ready: Ready,
    reading: Callable[[], PoolReading],
    held: Collection[str],
) -> bool:
    """Was anything done that the next pass may build on?"""

    def still(id_: str) -> bool:
        return id_ not in worked.failed and ready(id_)

    def may(action: PoolAction, id_: str) -> bool:
        return still(id_) and not (action.do in _TAKE_AWAY and id_ in held)

    moved = [*_look(context), *_decide(context, worked, may, reading())]
    worked.moved += moved
    done = run_actions(context, still)
    worked.take_in(done)
    return bool(moved or done.outcomes or done.refused)


def _look(context: EngineContext) -> tuple[DesktopRecord, ...]:
    """Rows follow their VMs; nothing is said to have failed that was not asked twice."""
    reading = read(context)
    doubts = hosts_to_ask_again(reading.rows, reading.seen) & {
        each.name for each in reading.view.hosts
    }
    if doubts:
        context.refresh(doubts)
        busy = reading.busy
        reading = read(context)
        reading = replace(reading, busy=busy | reading.busy)
    found = updated_rows(reading.rows, reading.seen)
    return context.ledger.take_desktops(found) if found else ()


def _decide(
    context: EngineContext,
    worked: PoolCycleReport,
    may: Callable[[PoolAction, str], bool],
    reading: PoolReading,
) -> Iterable[DesktopRecord]:
    """Pool by pool, the most important first: each finds what the others left."""
    for pool in sorted(reading.pools, key=lambda each: (-each.spec.priority, each.name)):
        reading = replace(reading, rows=context.ledger.desktops())
        found = decide_pool(reading.of(pool, reading.startable(pool)))
        worked.warnings[pool.name] = found.warnings
        _end_asks(context, pool, reading)
        actions = [each for each in found.actions if may(each, _subject(each, pool, reading))]
        try:
            yield from _take(context, pool, found, actions, reading)
        except StaleGeneration:
            continue  # somebody else was faster: it has another turn


def _end_asks(context: EngineContext, pool: PoolRecord, reading: PoolReading) -> None:
    """End the requests of users that can never get a desktop."""
    view = reading.of(pool)
    for ask in view.asks:
        found = assign(view, ask)
        if isinstance(found, AssignmentRefusal) and not found.waits:
            context.ledger.end_ask(pool.id, ask.user)


def _subject(action: PoolAction, pool: PoolRecord, reading: PoolReading) -> str:
    """The id of the desktop that an action is about; the pool's where there is none yet."""
    row = next((each for each in reading.rows if each.name == action.desktop), None)
    return row.id if row is not None else pool.id


def _take(
    context: EngineContext,
    pool: PoolRecord,
    found: PoolDecision,
    actions: Iterable[PoolAction],
    reading: PoolReading,
) -> Iterable[DesktopRecord]:
    """Users first: where another process assigns desktops of the pool meanwhile, one of the two
    wins.
    """
    ledger, rows = context.ledger, {each.name: each for each in reading.rows}
    now = reading.now
    moves = {
        each: move
        for each in actions
        if (move := row_after(each, pool, rows.get(each.desktop), now, context.new_uuid()))
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
