"""One cycle of the queue: ended VMs leave it, spot VMs are preempted, waiting VMs start."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration.users_at_work import logged_in
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome, VmOutcome
from vgpumgr.engine.planning.vm_admission import never_fitting
from vgpumgr.engine.queue.queue_decision import ended
from vgpumgr.engine.queue.queue_starts import Ready, decide_by_ledger, decide_by_probe, start
from vgpumgr.engine.reservation.shelf_reservations import StopManner, shelve_reservation
from vgpumgr.model.errors import StaleGeneration
from vgpumgr.model.formats import clock, counted
from vgpumgr.model.placement import NotPlaced
from vgpumgr.model.queue import (
    QueueDecision,
    QueueEntry,
    QueueMoved,
    QueueState,
    RoomReservation,
    Wait,
    WaitReason,
)
from vgpumgr.model.vm import VmRecord, VmState, duration_text

# The notice is a tenth of the runtime, but no less than a minute and no more than ten.
NOTICE_S, LEAST_NOTICE_S, NOTICE_SHARE = 600.0, 60.0, 0.1


@dataclass(frozen=True, slots=True)
class LimitedVm:
    """A VM that runs for no longer than until ``ends`` (Unix seconds)."""

    entry: QueueEntry
    vm: VmRecord
    runtime_s: float
    ends: float

    @property
    def notice_s(self) -> float:
        """How long before its end it is told."""
        return max(LEAST_NOTICE_S, min(NOTICE_S, self.runtime_s * NOTICE_SHARE))

    @property
    def over(self) -> str:
        """Why it is stopped."""
        return f"its runtime of {duration_text(self.runtime_s)} is over"

    def to_tell(self, now: float, told: Mapping[str, float]) -> bool:
        """Is it time to tell it, and was it not told?"""
        return now >= self.ends - self.notice_s and self.entry.id not in told

    def to_stop(self, now: float, told: Mapping[str, float]) -> bool:
        """Is its time over, and was it told long enough ago?"""
        return now >= max(self.ends, told.get(self.entry.id, now) + LEAST_NOTICE_S)


def limited(view: LedgerView, busy: Collection[str]) -> Iterator[LimitedVm]:
    """The VMs of the queue that run and have a runtime, on hosts that answer; none with an
    operation (``busy``, by the VM's id), none that its user stopped.
    """
    seen, vms = observed_domains(view), {vm.id: vm for vm in view.vms}
    for entry in view.queue:
        vm = vms.get(entry.vm_id)
        runtime_s = vm.spec.queue.runtime_s if vm and vm.spec.queue else None
        if vm is None or runtime_s is None or entry.state is not QueueState.RUNNING:
            continue
        wanted = vm.state is VmState.ACTIVE and vm.running and not vm.definition
        runs = (vm.host, vm.name) in seen.running and vm.host not in seen.resting
        if wanted and runs and vm.id not in busy:
            yield LimitedVm(entry, vm, runtime_s, (entry.started_at or entry.since) + runtime_s)


def tell(
    context: EngineContext, found: Collection[LimitedVm], told: dict[str, float]
) -> dict[str, str]:
    """Write down that these end soon, and keep when; a sentence for each that is told now, by name.
    Users who are logged in are named.
    """
    now = context.clock.now()
    soon = [each for each in found if each.to_tell(now, told)]
    if not soon:
        return {}
    users = logged_in(context, [each.vm for each in soon if each.vm.spec.agent])
    said = {}
    for each in soon:
        at = clock(max(each.ends, now + LEAST_NOTICE_S))
        some = users.get(each.vm.name)
        more = f"; {counted(some, 'user')} logged in" if some else ""
        text = f"it is stopped at {at}: {each.over} then{more}"
        state = QueueState.RUNNING
        try:
            context.ledger.move_queue(
                [QueueMoved(entry=each.entry.id, before=state, state=state, why=text)]
            )
        except StaleGeneration:
            continue  # it has left the queue
        told[each.entry.id] = now
        said[each.vm.name] = text
    return said


def overdue(
    found: Collection[LimitedVm], now: float, told: Mapping[str, float]
) -> tuple[list[VmRecord], list[QueueMoved]]:
    """The VMs that are stopped now, and the ends of their entries."""
    late = [each for each in found if each.to_stop(now, told)]
    moves = [
        QueueMoved(
            entry=each.entry.id, before=QueueState.RUNNING, state=QueueState.ENDED, why=each.over
        )
        for each in late
    ]
    return [each.vm for each in late], moves


# A spot VM is asked to power off, and has this long for it, in seconds.
SPOT_GRACE_S = 60.0


def shelve(
    context: EngineContext,
    view: LedgerView,
    vms: Sequence[VmRecord],
    moves: Sequence[QueueMoved],
) -> Outcome:
    """Stop them, give back what they hold, and see that it is."""
    stop = StopManner(timeout_s=SPOT_GRACE_S, at_last=True)
    start = shelve_reservation(vms, view, context.opening(), stop, kind="queue", moves=moves)
    outcome = operation_lifecycle.begin(context, start)
    context.refresh({vm.host for vm in vms})  # the last look still shows what was given back
    return outcome


def end(context: EngineContext) -> tuple[tuple[str, ...], Outcome]:
    """End VMs that were off at the last look, and are off at another look."""
    seen = ended(context.view(), operation_lifecycle.worked_on(context.ledger))
    if not seen:
        return (), Outcome()
    fresh = context.refresh({vm.host for _, vm in seen}).facts
    view = context.view()
    before = {entry.id for entry, _ in seen}
    still = ended(view, operation_lifecycle.worked_on(context.ledger))
    off = [(entry, vm) for entry, vm in still if entry.id in before and vm.host in fresh]
    moves = [
        QueueMoved(
            entry=entry.id,
            before=QueueState.RUNNING,
            state=QueueState.ENDED,
            why="its guest has powered off",
        )
        for entry, _ in off
    ]
    if not off:
        return (), Outcome()
    return tuple(vm.name for _, vm in off), shelve(context, view, [vm for _, vm in off], moves)


def make_room(
    context: EngineContext, ready: Ready, kept: Sequence[RoomReservation]
) -> tuple[dict[str, str], Outcome]:
    """Stop the spot VMs whose places other VMs need; these start when the places are free."""
    view, turn = decide_by_probe(context, ready, kept)
    victims = {name: each.waiting.vm.name for each in turn.starts for name in each.preempts}
    vms = [vm for vm in view.vms if vm.name in victims]
    entries = {each.vm_id: each for each in view.queue}
    moves = [
        QueueMoved(
            entry=entries[vm.id].id,
            before=QueueState.RUNNING,
            state=QueueState.WAITING,
            why=f"preempted for {victims[vm.name]}",
            preempted=True,
        )
        for vm in vms
    ]
    return victims, shelve(context, view, vms, moves) if vms else Outcome()


def enforce_runtimes(
    context: EngineContext, told: dict[str, float]
) -> tuple[dict[str, str], tuple[str, ...], Outcome]:
    """Tell VMs whose runtime is nearly over, and stop VMs whose runtime is: what is told by name,
    the names of the stopped. ``told`` is when entries (by id) were told, and grows.
    """
    view = context.view()
    found = list(limited(view, operation_lifecycle.worked_on(context.ledger)))
    for entry in told.keys() - {each.entry.id for each in found}:
        del told[entry]
    vms, moves = overdue(found, context.clock.now(), told)
    said = tell(context, found, told)
    if not vms:
        return said, (), Outcome()
    return said, tuple(vm.name for vm in vms), shelve(context, view, vms, moves)


# What started may let others start; the rest has another turn.
MOST_PASSES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCycleReport:
    """The result of a queue's cycle. ``told`` has a sentence for each VM whose runtime ends soon,
    ``overdue`` are VMs that were stopped for it. ``preempted`` maps spot VMs to the VMs that get
    their places; ``refused`` has the reasons why VMs wait on that were to start, ``failed`` are
    their entries.
    ``kept`` is capacity reserved for the VMs that wait longest, which the next cycle is told.
    """

    ended: tuple[str, ...] = ()
    told: Mapping[str, str] = field(default_factory=dict)
    overdue: tuple[str, ...] = ()
    preempted: Mapping[str, str] = field(default_factory=dict)
    started: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    outcomes: tuple[VmOutcome, ...] = ()
    kept: tuple[RoomReservation, ...] = ()

    @property
    def any(self) -> bool:
        """Was anything begun?"""
        return bool(self.outcomes)


def forecast(context: EngineContext) -> QueueDecision:
    """The next cycle by the last observation; nothing is probed or changed."""
    view = context.view()
    turn = decide_by_ledger(context, view, lambda _: True, ())
    never = never_fitting(
        view, (each.waiting.vm for each in turn.waits if each.why is WaitReason.ROOM)
    )
    return replace(turn, waits=tuple(_never(each, never) for each in turn.waits))


def _never(wait: Wait, never: Mapping[str, NotPlaced]) -> Wait:
    """A VM that can never fit, with that reason rather than a lack of room."""
    found = never.get(wait.waiting.vm.name)
    if found is None:
        return wait
    nearest = found.reasons[-1].text if len(found.reasons) > 1 else "there is no host"
    text = f"no host of the fleet could ever hold it: {nearest}"
    return replace(wait, why=WaitReason.NEVER, text=text)


def step(
    context: EngineContext,
    ready: Ready = lambda _: True,
    kept: Sequence[RoomReservation] = (),
    told: dict[str, float] | None = None,
) -> QueueCycleReport:
    """One cycle. Entries (by id) that are not ``ready`` wait for a later one; ``kept`` is the room
    that the cycle before kept, ``told`` when entries were told that their runtime ends.
    """
    if context.ledger.frozen() is not None or not context.ledger.queue():
        return QueueCycleReport()
    gone, ends = until_current(partial(end, context))
    told = {} if told is None else told
    said, late, limits = until_current(partial(enforce_runtimes, context, told))
    preempted, stops = until_current(partial(make_room, context, ready, kept))
    outcomes = [*ends.vms, *limits.vms, *stops.vms]
    started: list[str] = []
    refused: dict[str, str] = {}
    for _ in range(MOST_PASSES):
        still = partial(_still, ready, refused)
        found = until_current(partial(start, context, still, kept))
        kept = found.kept
        refused |= found.refused
        outcomes += found.outcome.vms
        started += [each.vm for each in found.outcome.done]
        if not found.outcome.vms:
            break
    return QueueCycleReport(
        ended=gone,
        told=said,
        overdue=late,
        preempted=preempted,
        started=tuple(started),
        refused=_told(context, refused),
        failed=tuple(refused),
        outcomes=tuple(outcomes),
        kept=tuple(kept),
    )


def _still(ready: Ready, refused: Mapping[str, str], entry: str) -> bool:
    return entry not in refused and ready(entry)


def _told(context: EngineContext, refused: Mapping[str, str]) -> dict[str, str]:
    """Written down where it is not what it was before; by the VM's name."""
    waiting = [each for each in context.ledger.queue() if each.id in refused]
    state = QueueState.WAITING
    moves = [
        QueueMoved(entry=each.id, before=state, state=state, why=refused[each.id])
        for each in waiting
        if each.state is state and each.why != refused[each.id]
    ]
    if moves:
        try:
            context.ledger.move_queue(moves)
        except StaleGeneration:
            return {}  # cancelled meanwhile: nobody asks any more
    return {each.name: refused[each.id] for each in waiting}
