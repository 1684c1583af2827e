"""Queued VMs started: created, or brought back from the shelf."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from vgpumgr.engine.desktops.booked_capacity import OpenBookings, booked_desktops
from vgpumgr.engine.inventory.fleet_without import view_without
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.planning.disk_images import absent
from vgpumgr.engine.planning.failover_check import FailoverCheck
from vgpumgr.engine.planning.hypothetical_layouts import with_layouts
from vgpumgr.engine.planning.placement_limits import reserve_reason
from vgpumgr.engine.planning.vm_plan import describe
from vgpumgr.engine.queue.queue_decision import decide, layouts_wanted, with_layouts_wanted
from vgpumgr.engine.reservation.shelf_reservations import unshelve_reservation
from vgpumgr.engine.vms import vm_apply
from vgpumgr.model.apply_plan import Action, ActionKind, Plan
from vgpumgr.model.errors import Interrupted, LedgerError, StaleGeneration, VgpumgrError
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import (
    QueueDecision,
    QueueEntry,
    QueueMoved,
    QueueStart,
    QueueState,
    RoomReservation,
    Wait,
    WaitReason,
)
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmState
from vgpumgr.placement.placer import Placer

# May an entry (by id) be started now?
Ready = Callable[[str], bool]


def decide_by_probe(
    context: EngineContext, ready: Ready, kept: Sequence[RoomReservation]
) -> tuple[LedgerView, QueueDecision]:
    """The decision by a fresh look at the hosts it is about; nothing where it changes with it."""
    first = decide_by_ledger(context, context.view(), ready, kept)
    hosts = {each.placed.host for each in first.starts}
    if not hosts:
        return context.view(), first
    observed = context.refresh(hosts)
    view = context.view()
    again = decide_by_ledger(context, view, ready, kept)
    starting = [each.placed for each in again.starts]
    if missing := absent(starting, view, context.hosts, context.lanes):
        view = replace(view, absent=missing)
        again = decide_by_ledger(context, view, ready, kept)
    fresh = tuple(each for each in again.starts if each.placed.host in observed.facts)
    return view, replace(again, starts=fresh)


def decide_by_ledger(
    context: EngineContext, view: LedgerView, ready: Ready, kept: Sequence[RoomReservation]
) -> QueueDecision:
    """The decision by this reading of the ledger; ``kept`` is the capacity reserved by the previous
    cycle.
    """
    queue = tuple(each for each in view.queue if each.state is QueueState.RUNNING or ready(each.id))
    view = replace(view, queue=queue)
    now = context.clock.now()

    def placer(fleet: Fleet) -> Placer:
        if context.policy is not PlacementPolicy.CAPACITY_FIRST:
            return Placer(fleet, context.policy)
        found = context.expected.outlook(context.ledger, now, fleet)
        return Placer(fleet, context.policy, mix=found.mix, plan=found.plan)

    booked = booked_desktops(context.ledger, now)
    ended, bookings = _have_ended(context, queue), OpenBookings(context.ledger, now)
    layouts = layouts_wanted(view, partial(context.place, kept=booked))
    view = with_layouts(view, layouts)
    held: list[Wait] = []
    while True:
        found = decide(view, ended, placer, now, kept, booked)
        late = _outdoing(bookings, view, found) or _beyond_reserve(view, found)
        if not late:
            return with_layouts_wanted(_with(found, held), layouts)
        held += late
        names = {each.waiting.vm.name for each in late}
        view = replace(view, queue=tuple(each for each in view.queue if each.name not in names))


def _outdoing(bookings: OpenBookings, view: LedgerView, found: QueueDecision) -> list[Wait]:
    """The first starting VM that would leave a booking without its desktops: as far as is known, it
    would still run then.
    """
    if not bookings.outdone_by(view, [each.placed for each in found.starts]):
        return []
    begun: list[Placed] = []
    for start in found.starts:
        outdone = bookings.outdone_by(view, [*begun, start.placed])
        if outdone:
            it = outdone[0].booking
            text = f"its capacity is reserved for booking {it.id} ({it.count} × {it.profile})"
            return [
                Wait(waiting=start.waiting, position=1, why=WaitReason.HELD_FOR_OTHERS, text=text)
            ]
        begun.append(start.placed)
    return []


def _beyond_reserve(view: LedgerView, found: QueueDecision) -> list[Wait]:
    """The first starting VM with which the failover reserve would not hold."""
    if not view.reserve.hosts or not found.starts:
        return []
    preempted = {name for each in found.starts for name in each.preempts}
    stopped = {vm.id for vm in view.vms if vm.name in preempted}
    check = FailoverCheck(view_without(view, stopped), view.reserve)
    check.keep_what_holds()
    for start in found.starts:
        check.add(start.placed)
        if (loss := check.shortfall()) is not None:
            text = reserve_reason(loss).text
            why = WaitReason.HELD_FOR_OTHERS
            return [Wait(waiting=start.waiting, position=1, why=why, text=text)]
    return []


def _with(found: QueueDecision, held: Sequence[Wait]) -> QueueDecision:
    """The decision with held-back VMs among the waiting ones."""
    waits = (replace(each, position=n) for n, each in enumerate((*held, *found.waits), 1))
    return replace(found, waits=tuple(waits)) if held else found


def _have_ended(context: EngineContext, queue: Collection[QueueEntry]) -> frozenset[str]:
    """Of the VMs that others wait for: VMs whose last entry in the queue has ended."""
    names = frozenset(chain.from_iterable(each.terms.after for each in queue))
    if not names:
        return frozenset()
    last = {each.name: each for each in sorted(context.ledger.queue(names), key=_closed)}
    return frozenset(n for n, each in last.items() if each.state is QueueState.ENDED and n in names)


def _closed(entry: QueueEntry) -> tuple[bool, float]:
    """Open ones last."""
    return entry.closed_at is None, entry.closed_at or 0.0


# They are about more than the VMs that were to start.
_OF_ALL = (StaleGeneration, LedgerError, Interrupted)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReport:
    """The result of the starts; ``refused`` has the reasons by the entry's id. ``kept`` is capacity
    reserved for other VMs.
    """

    outcome: Outcome = field(default_factory=Outcome)
    refused: dict[str, str] = field(default_factory=dict)
    kept: tuple[RoomReservation, ...] = ()


def start(context: EngineContext, ready: Ready, kept: Sequence[RoomReservation]) -> StartReport:
    """Start the VMs that need no VM stopped: new VMs, or where there are none, shelved ones.

    A VM that is refused before anything is done holds back no other.
    """
    view, turn = decide_by_probe(context, ready, kept)
    known = {vm.name for vm in view.vms}
    chosen = [each for each in turn.starts if not each.preempts]
    new = [each for each in chosen if each.waiting.vm.name not in known]
    work = _make if new else _unshelve
    found = _each(context, view, new or chosen, work) if chosen else StartReport()
    return replace(found, kept=turn.reservations)


def _each(
    context: EngineContext,
    view: LedgerView,
    chosen: Sequence[QueueStart],
    work: Callable[[EngineContext, LedgerView, Sequence[QueueStart]], Outcome],
) -> StartReport:
    """All at once, or where that is refused the first that can; the rest has another cycle."""
    entries = {each.name: each for each in view.queue}
    groups = _groups(chosen)
    refused: dict[str, str] = {}
    for group in (chosen, *groups) if len(groups) > 1 else groups:
        try:
            outcome = work(context, view, group)
        except _OF_ALL:
            raise
        except VgpumgrError as error:
            if group is not chosen:
                refused |= {entries[each.waiting.vm.name].id: str(error) for each in group}
            continue
        refused |= _taken_back(outcome, entries)
        return StartReport(outcome=outcome, refused=refused)
    return StartReport(refused=refused)


def _groups(chosen: Iterable[QueueStart]) -> list[list[QueueStart]]:
    """Groups of VMs that start together, and each of the others."""
    found: dict[tuple[str, str], list[QueueStart]] = {}
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


def _make(context: EngineContext, view: LedgerView, new: Sequence[QueueStart]) -> Outcome:
    return vm_apply.carry_out(context, Plan(actions=tuple(map(_creation, new))), view)


def _creation(start: QueueStart) -> Action:
    placed = start.placed
    return Action(
        kind=ActionKind.CREATE,
        vm=placed.request,
        host=placed.host,
        placed=placed,
        details=tuple(describe(placed)),
    )


def _unshelve(context: EngineContext, view: LedgerView, back: Sequence[QueueStart]) -> Outcome:
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
    start = unshelve_reservation(
        {vm.id: placed[vm.name] for vm in vms}, view, context.opening(), kind="queue", moves=moves
    )
    return operation_lifecycle.begin(context, start)
