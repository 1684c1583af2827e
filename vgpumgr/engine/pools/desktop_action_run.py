"""The pool controller's actions carried out: desktops created, updated, stopped and deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vgpumgr.engine.desktops.booked_capacity import place_beside_bookings
from vgpumgr.engine.desktops.desktop_state import desktop_spec, failed, not_updated
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration.moves_within_host import closed
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import refuse_resting, until_current
from vgpumgr.engine.operations.operation_outcome import Outcome, VmOutcome
from vgpumgr.engine.planning.automatic_layouts import place_with_layouts
from vgpumgr.engine.planning.disk_images import absent, check_disks
from vgpumgr.engine.planning.placement_limits import within_limits
from vgpumgr.engine.planning.vm_admission import no_placement
from vgpumgr.engine.planning.vm_plan import describe
from vgpumgr.engine.pools.pool_reading import PoolReading, read
from vgpumgr.engine.reservation.first_disk_replacement import reimage_reservation
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.engine.vms import vm_apply, vm_deletion, vm_power, vm_shelving
from vgpumgr.model.apply_plan import Action, ActionKind, Plan
from vgpumgr.model.desktop import Desktop, DesktopRecord, DesktopState, DesktopVerb, PoolRecord
from vgpumgr.model.errors import Interrupted, LedgerError, NoPlacement, VgpumgrError
from vgpumgr.model.operation import TaskState
from vgpumgr.model.placement import Decision, NotPlaced, Placed
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_devices import DiskSpec

Rows = Sequence[DesktopRecord]
Refused = list[tuple[DesktopRecord, VgpumgrError]]


def fit(context: EngineContext, rows: Rows) -> tuple[Rows, Refused]:
    """The desktops that there are places for, and the reasons for the others.

    The last look may still show capacity released since: it alone refuses no desktop.
    """
    if not rows:
        return (), []
    refused: Refused = []
    view = context.view()
    sound = [row for row in rows if not _unsound(context, view, row, refused)]
    if not sound:
        return (), refused
    decided = _decided(context, view, sound)
    if any(isinstance(each, NotPlaced) for each in decided):
        context.refresh_all()
        decided = _decided(context, context.view(), sound)
    pairs = list(zip(sound, decided, strict=True))
    refused += [(row, no_placement([it])) for row, it in pairs if isinstance(it, NotPlaced)]
    return [row for row, it in pairs if isinstance(it, Placed)], refused


def refusal(context: EngineContext, reading: PoolReading, pool: PoolRecord) -> str:
    """Why no desktop of it can be made now, by what was seen last; empty where one can."""
    row = DesktopRecord(
        id="",
        pool=pool.id,
        desktop=Desktop(
            name=pool.name, state=DesktopState.CREATING, image=pool.image, since=reading.now
        ),
    )
    try:
        decided = _decided(context, reading.view, [row])
    except VgpumgrError as error:
        return str(error)
    misfits = [each for each in decided if isinstance(each, NotPlaced)]
    return no_placement(misfits).why if misfits else ""


def _unsound(
    context: EngineContext, view: LedgerView, row: DesktopRecord, refused: Refused
) -> bool:
    """Whether the image is retired or rolled back, so that no desktop is created from it."""
    try:
        _specs(context, view, [row])
    except VgpumgrError as error:
        refused.append((row, error))
        return True
    return False


def make(context: EngineContext, rows: Rows) -> Outcome:
    """Placed anew by a fresh look at the hosts that were chosen; all of them, or NoPlacement."""
    context.refresh({each.host for each in _placed(context, context.view(), rows)})
    view = context.view()
    placed = _placed(context, view, rows)
    if missing := absent(placed, view, context.hosts, context.lanes):
        view = replace(view, absent=missing)
        placed = _placed(context, view, rows)
    actions = tuple(map(_creation, placed))
    making = [replace(each, doing=DesktopVerb.CREATE) for each in rows]
    return vm_apply.carry_out(context, Plan(actions=actions), view, making)


def _decided(context: EngineContext, view: LedgerView, rows: Rows) -> list[Decision]:
    theirs = {row.pool for row in rows}
    place = place_beside_bookings(context.place, context.ledger, context.clock.now(), but=theirs)
    fleet, wanted = build_fleet(view), _specs(context, view, rows)
    emptied = {gpu for each in context.ledger.logoff_moves() for gpu in each.leaves}
    if emptied:  # a GPU that users leave one by one is not filled again, where there is another
        decided = within_limits(view, place(closed(fleet, emptied), wanted))
        if all(isinstance(each, Placed) for each in decided):
            return decided
    return within_limits(view, place_with_layouts(view, place(fleet, wanted), place))


def _specs(context: EngineContext, view: LedgerView, rows: Rows) -> list[VmSpec]:
    pools = {each.id: each.spec for each in context.ledger.pools()}
    return [desktop_spec(pools[row.pool], row.name, row.desktop.image, view.images) for row in rows]


def _placed(context: EngineContext, view: LedgerView, rows: Rows) -> list[Placed]:
    decided = _decided(context, view, rows)
    if misfits := [each for each in decided if isinstance(each, NotPlaced)]:
        raise no_placement(misfits)
    return [each for each in decided if isinstance(each, Placed)]


def _creation(placed: Placed) -> Action:
    return Action(
        kind=ActionKind.CREATE,
        vm=placed.request,
        host=placed.host,
        placed=placed,
        details=tuple(describe(placed)),
    )


def update(context: EngineContext, rows: Sequence[DesktopRecord], stop: StopManner) -> Outcome:
    """First disks anew, from the images that the rows say; Conflict or NotFound where an image is
    no good: the desktops run on as they are.
    """
    view = context.view()
    disks = _disks(context, view, rows)
    vms = [vm for vm in view.vms if vm.id in disks]
    operation_lifecycle.refuse_unfinished(context.ledger, vms)
    refuse_resting(((vm.name, vm.host) for vm in vms), observed_domains(view).resting)
    records = {host.name: host for host in view.hosts}
    wanted = [(vm.host, disks[vm.id]) for vm in vms]
    check_disks(wanted, records, context.hosts, context.lanes)
    return operation_lifecycle.begin(
        context, reimage_reservation(disks, view, context.opening(), stop)
    )


def _disks(
    context: EngineContext, view: LedgerView, rows: Sequence[DesktopRecord]
) -> Mapping[str, DiskSpec]:
    """The first disk that a desktop made now would have, by the id of its VM."""
    pools = {each.id: each.spec for each in context.ledger.pools()}
    return {
        row.vm_id: desktop_spec(pools[row.pool], row.name, row.desktop.image, view.images).disks[0]
        for row in rows
    }


# A desktop that is put on the shelf is asked to power off, and has this long for it, in seconds.
SHELVE_GRACE_S = 60.0
_OF_ALL = (LedgerError, Interrupted)
_TAKEN_BACK = frozenset({TaskState.UNDONE, TaskState.FAILED})


@dataclass(slots=True)
class DesktopWorkReport:
    """The result of the work: refusals by the desktop's name, and ids of desktops to wait."""

    outcomes: list[VmOutcome] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def run_actions(context: EngineContext, ready: Callable[[str], bool]) -> DesktopWorkReport:
    """Go on with all that was taken: first what gives room, then what needs it."""
    done = DesktopWorkReport()
    reading = read(context)
    rows = [each for each in reading.rows if each.doing and _free(each, reading)]
    if not rows:
        return done
    going = [each for each in rows if _goes(each, reading) and ready(each.id)]
    _each(context, done, going, _delete)
    resting = [each for each in rows if each.doing is DesktopVerb.SHELVE and ready(each.id)]
    _each(context, done, resting, _shelve)
    changing = [each for each in rows if each.doing is DesktopVerb.UPDATE and ready(each.id)]
    _each(context, done, changing, _update)
    _look_at(context, done)  # the last look still shows what was given back
    reading = read(context)
    rows = [each for each in reading.rows if each.doing and _free(each, reading)]
    new = [each for each in rows if _is_new(each, reading) and ready(each.id)]
    fitting, misfits = fit(context, new)
    for row, error in misfits:
        _refused(context, done, row, error)
    _each(context, done, fitting, make)
    back = [
        each
        for each in rows
        if each.doing in {DesktopVerb.START, DesktopVerb.HEAL} and ready(each.id)
    ]
    _each(context, done, back, _start)
    _look_at(context, done)
    _turn_back(context, done, changing)
    return done


def _look_at(context: EngineContext, done: DesktopWorkReport) -> None:
    touched = {each.host for each in done.outcomes}
    if touched:
        context.refresh(touched)


def _free(row: DesktopRecord, reading: PoolReading) -> bool:
    """Whether no operation works on the desktop's VM, and its host can be worked with."""
    vm = reading.seen.vms.get(row.vm_id)
    return vm is None or (vm.id not in reading.busy and reading.seen.answers(vm.host))


def _goes(row: DesktopRecord, reading: PoolReading) -> bool:
    return row.doing in {DesktopVerb.DELETE, DesktopVerb.RECREATE} and row.vm_id in reading.seen.vms


def _is_new(row: DesktopRecord, reading: PoolReading) -> bool:
    if row.doing is DesktopVerb.CREATE:
        return not row.vm_id
    return row.doing is DesktopVerb.RECREATE and row.vm_id not in reading.seen.vms


def _each(
    context: EngineContext,
    done: DesktopWorkReport,
    rows: Rows,
    do: Callable[[EngineContext, Rows], Outcome],
) -> None:
    """All at once, or where that is refused each by itself."""
    if not rows or context.stop.is_set():
        return
    alone = [[each] for each in rows]
    for group in (rows, *alone) if len(rows) > 1 else alone:
        try:
            outcome = until_current(lambda group=group: do(context, group))  # type: ignore[misc]
        except _OF_ALL:
            raise
        except VgpumgrError as error:
            if len(group) == 1:
                _refused(context, done, group[0], error)
            continue
        done.outcomes += outcome.vms
        if group is rows:
            return


def _refused(
    context: EngineContext, done: DesktopWorkReport, row: DesktopRecord, error: VgpumgrError
) -> None:
    """A desktop that holds nothing and finds no room was never there; another fault is its own."""
    done.refused[row.name] = str(error)
    done.failed.append(row.id)
    if row.doing in {DesktopVerb.DELETE, DesktopVerb.SHELVE, DesktopVerb.UPDATE}:
        return
    done.failed.append(row.pool)  # what keeps one from being made may keep the next
    current = next(iter(context.ledger.desktops([row.name])), None)
    if current is None or current.doing is not row.doing:
        return
    if after := _after(context, current, error):
        context.ledger.take_desktops([after])


def _turn_back(context: EngineContext, done: DesktopWorkReport, rows: Rows) -> None:
    """Desktops whose new image was refused keep the image that they had."""
    errors = {each.vm: str(each.error) for each in done.outcomes if each.state in _TAKEN_BACK}
    refused = {**errors, **done.refused}
    if not any(each.name in refused for each in rows):
        return
    reading = read(context)
    found = [
        not_updated(row, reading.seen, refused[row.name])
        for row in reading.rows
        if row.doing is DesktopVerb.UPDATE and row.name in refused
    ]
    context.ledger.take_desktops(found)


def _after(context: EngineContext, row: DesktopRecord, error: VgpumgrError) -> DesktopRecord | None:
    """The row after a refused start; None: the desktop is still to be deleted."""
    now, why = context.clock.now(), str(error)
    if row.doing not in {DesktopVerb.CREATE, DesktopVerb.RECREATE}:
        return failed(row, now, why)
    if row.doing is DesktopVerb.RECREATE and row.vm_id in {vm.id for vm in context.ledger.vms()}:
        return None
    if isinstance(error, NoPlacement):
        return replace(row, closed_at=now, doing=None, why=why)
    return failed(replace(row, vm_id=""), now, why)


def _delete(context: EngineContext, rows: Rows) -> Outcome:
    return vm_deletion.delete(context, [each.name for each in rows], keep_disks=False, force=True)


def _shelve(context: EngineContext, rows: Rows) -> Outcome:
    stop = StopManner(timeout_s=SHELVE_GRACE_S, at_last=True)
    return vm_shelving.shelve(context, [each.name for each in rows], stop)


def _update(context: EngineContext, rows: Rows) -> Outcome:
    return update(context, rows, StopManner(timeout_s=SHELVE_GRACE_S, at_last=True))


def _start(context: EngineContext, rows: Rows) -> Outcome:
    return vm_power.start(context, [each.name for each in rows])
