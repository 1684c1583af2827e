"""`apply`: VMs created, changed and started as their files declare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from vgpumgr import guests
from vgpumgr.engine.capacity.refusal_explanation import refusal_explanations
from vgpumgr.engine.desktops.booked_capacity import OpenBookings, place_beside_bookings
from vgpumgr.engine.inventory.fleet_without import view_without
from vgpumgr.engine.inventory.ledger_view import (
    LedgerView,
    named_gpus,
    named_hosts,
    observed_domains,
)
from vgpumgr.engine.migration.moves_within_host import state_to_move
from vgpumgr.engine.migration.user_messages import tell_now
from vgpumgr.engine.migration.users_at_work import refuse_cut_off
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.operations.operation_lifecycle import refuse_resting, until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.planning.automatic_layouts import with_layouts_of
from vgpumgr.engine.planning.disk_images import absent, check_planned, refuse_unsteady
from vgpumgr.engine.planning.given_addresses import refuse_shared
from vgpumgr.engine.planning.hypothetical_layouts import with_layouts
from vgpumgr.engine.planning.new_seats import is_reseated, release_command
from vgpumgr.engine.planning.vm_admission import no_placement, require_known
from vgpumgr.engine.planning.vm_plan import (
    make_plan,
    refuse_impossible,
    refuse_more_disks,
    refuse_oversized,
    refuse_restart,
    refuse_unreached,
)
from vgpumgr.engine.reservation import vm_reservations
from vgpumgr.engine.reservation.rolling_tasks import rolling_tasks
from vgpumgr.engine.reservation.vm_reservations import require_partitioned, require_whole
from vgpumgr.engine.vms.vm_pruning import NOTHING_PRUNED, Pruning, prune, refuse_users_of
from vgpumgr.model.apply_plan import ActionKind, Plan
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.errors import Interrupted, NotFound
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.layout import GpuLayout
from vgpumgr.model.operation import (
    EVACUATE,
    MIGRATE,
    OF_SNAPSHOTS,
    RESEAT,
    ROLL,
    SHELVE,
    UNSHELVE,
    Reservation,
)
from vgpumgr.model.rolling import NOT_ROLLING, RollingVms
from vgpumgr.model.vm import VmRecord, VmSpec


def require_secrets(context: EngineContext, planned: Plan) -> None:
    """NotFound, or NotPermitted, where a VM that is to be made takes a secret that is not here."""
    asked: set[tuple[str, str]] = set()
    for action in planned.actions:
        if action.kind is ActionKind.CREATE and action.placed is not None:
            asked |= {(action.vm.tenant, name) for name in secrets_of(action.vm)}
    for tenant, name in sorted(asked):
        try:
            context.secrets.read(tenant, name)
        except NotFound as error:
            raise NotFound(
                f"no secret {name} of tenant {tenant}, which a new guest takes",
                next=f"vgpumgr secret set {name} --tenant {tenant}",
            ) from error


def secrets_of(spec: VmSpec) -> tuple[str, ...]:
    """The names of the secrets of its tenant that a VM's first boot takes."""
    return guests.secrets_of(spec.guest, spec.os) if spec.guest is not None else ()


# A start or stop that was cut off is not resumed: planning sees what runs.
_RESUMED = frozenset(
    {"create", "delete", "change", MIGRATE, RESEAT, ROLL, EVACUATE, SHELVE, UNSHELVE} | OF_SNAPSHOTS
)


@dataclass(frozen=True, slots=True)
class ChangesBefore:
    """What is done before a plan is carried out: VMs (names) ``deleted``, and GPUs (our ids)
    partitioned.
    """

    deleted: Collection[str] = ()
    layouts: Mapping[str, GpuLayout] = field(default_factory=dict)


NOTHING_BEFORE = ChangesBefore()


@dataclass(frozen=True, slots=True)
class _PlanRequest:
    """What is to be planned, and how VMs are placed."""

    desired: Sequence[VmSpec]
    rolling: RollingVms
    before: ChangesBefore
    place: PlaceFunction

    def plan(self, view: LedgerView, warnings: Sequence[str]) -> Plan:
        """By this reading."""
        gone = {vm.id for vm in view.vms if vm.name in self.before.deleted}
        left = view_without(view, gone) if gone else view
        left = with_layouts(left, self.before.layouts)
        return make_plan(left, self.desired, self.place, warnings, self.rolling)


def plan(
    context: EngineContext,
    desired: Sequence[VmSpec],
    rolling: RollingVms = NOT_ROLLING,
    before: ChangesBefore = NOTHING_BEFORE,
) -> tuple[Plan, LedgerView]:
    """The plan with the reading it was made from: its generations referee the reservation. VMs
    that are ``rolling`` change in waves; ``before`` is what is done first.

    Hosts that hang are left out and named, unless a VM is there or must go there, or one fits
    nowhere else: before that is said they are waited for. Hosts that a controller keeps looking at
    are chosen among by its last looks, and probed where something is to be done.
    """
    require_afters(context, desired)
    ledger, now, place = context.ledger, context.clock.now(), context.place
    booked = bool(ledger.bookings())
    if booked:
        place = place_beside_bookings(place, ledger, now)
    planned, view = _with_looks(context, _PlanRequest(desired, rolling, before, place))
    refuse_oversized(planned.actions, view.hosts)
    refuse_shared(desired, view.vms)
    if planned.unplaced and context.stop.is_set():
        # Ctrl-C ends the solver of orders, too: that no place was found says nothing then.
        raise Interrupted("interrupted", why="nothing was changed yet")
    if said := _lacking(context, planned):
        planned = replace(planned, notes=(*planned.notes, said))
    if absent := _absent_targets(context, desired):
        planned = replace(planned, notes=(*planned.notes, *absent))
    if booked:
        placed = [action.placed for action in planned.actions if action.placed]
        bookings = OpenBookings(ledger, context.clock.now())
        outdone = bookings.outdone_by(with_layouts_of(view, placed), placed)
        planned = replace(planned, notes=(*planned.notes, *(each.words for each in outdone)))
    return planned, view


def _absent_targets(context: EngineContext, desired: Sequence[VmSpec]) -> list[str]:
    """Which backup targets are named and not there, and how to make them."""
    named = {spec.backup.target: spec.name for spec in desired if spec.backup is not None}
    if not named:
        return []
    there = {each.name for each in context.ledger.backup_targets()}
    return [
        f"{vm} is not backed up: there is no backup target {target}: "
        f"vgpumgr backup target create {target} --pool POOL"
        for target, vm in sorted(named.items())
        if target not in there
    ]


def _with_looks(context: EngineContext, asked: _PlanRequest) -> tuple[Plan, LedgerView]:
    named, anywhere = _touched(context, asked.desired)
    kept_up = context.ledger.looks_kept_up(context.clock.now()) if anywhere else frozenset()
    trusted = kept_up - named
    said: list[str] = []

    def plan_by(view: LedgerView) -> tuple[Plan, LedgerView]:
        return _planned(context, asked, view, said)

    with context.looking(named, others=anywhere, without=trusted) as probes:
        said.extend(probes.wait())
        planned, view = plan_by(context.view())
        if planned.unplaced and probes.left_out:
            said[:] = probes.insist()
            planned, view = plan_by(context.view())
    while doubted := trusted & _hosts_of(planned) or (trusted if planned.unplaced else frozenset()):
        trusted -= doubted
        with context.looking(among=doubted) as probes:
            said.extend(probes.wait() if not planned.unplaced else probes.insist())
        if planned.unplaced or not _show_the_same(context, doubted, view):
            planned, view = plan_by(context.view())
    return planned, view


def _show_the_same(context: EngineContext, names: Collection[str], before: LedgerView) -> bool:
    """Do these hosts, all reached, show what the reading before had of them?"""
    ledger, hosts = context.ledger, [host for host in before.hosts if host.name in names]
    gpus = [gpu for gpu in before.gpus if gpu.host in names]
    told = list(map(_told, hosts)) == list(map(_told, named_hosts(ledger, names)))
    return told and gpus == named_gpus(ledger, names)


def _told(host: HostRecord) -> tuple[str, HostFacts | None, str]:
    return host.name, host.facts, host.last_error


def _hosts_of(planned: Plan) -> frozenset[str]:
    """Hosts on which something is to be done."""
    return frozenset(action.host for action in planned.actions)


def _lacking(context: EngineContext, planned: Plan) -> str:
    """The warnings of decisions made without a plan; empty as a rule."""
    decided = any(action.kind is ActionKind.CREATE for action in planned.actions)
    return context.expected.latest.warning if decided or planned.unplaced else ""


def _planned(
    context: EngineContext, asked: _PlanRequest, view: LedgerView, warnings: Sequence[str]
) -> tuple[Plan, LedgerView]:
    """Hosts that lack the bare volume of an image are left out for its VMs."""
    planned = asked.plan(view, warnings)
    placed = [each.placed for each in planned.actions if each.placed]
    missing = absent(placed, view, context.hosts, context.lanes)
    if missing:
        view = replace(view, absent=missing)
        planned = asked.plan(view, warnings)
    return planned, view


def require_afters(context: EngineContext, desired: Sequence[VmSpec]) -> None:
    """NotFound where a VM waits for an unknown VM."""
    after = [spec.queue.after for spec in desired if spec.queue is not None]
    if not after:
        return
    names = frozenset((*(spec.name for spec in desired), *chain.from_iterable(after)))
    require_known(desired, context.ledger.queue(names))


def _touched(context: EngineContext, desired: Sequence[VmSpec]) -> tuple[frozenset[str], bool]:
    """The hosts that the VMs are on, or name; and may one of them go anywhere?"""
    placed = {vm.name: (vm.host,) for vm in context.ledger.vms()}
    named = [placed.get(spec.name) or spec.affinity.hosts for spec in desired]
    return frozenset().union(*named), not all(named)


def apply(
    context: EngineContext,
    desired: Sequence[VmSpec],
    *,
    partial: bool,
    restart: bool,
    with_users: bool = False,
    rolling: RollingVms = NOT_ROLLING,
    pruning: Pruning = NOTHING_PRUNED,
    show: Callable[[Plan], None] = lambda _: None,
) -> tuple[Plan, Outcome]:
    """Plan, reserve all or nothing, execute; of what is ``rolling`` the first wave, then the next.
    NoPlacement or Conflict change nothing, and UsersAtWork unless ``with_users``. What is pruned is
    deleted before, once it is known that the rest can be done then.

    ``show`` hears the plan before anything of it is done; anew where the ledger had moved.
    """
    wanted = {spec.name: spec for spec in desired}
    before = operation_lifecycle.finish_leftovers(context, wanted, _RESUMED)
    ready = [spec for spec in desired if spec.name not in before.waiting]

    def allowed(deleted: Collection[str] = ()) -> tuple[Plan, LedgerView]:
        planned, view = plan(context, ready, rolling, ChangesBefore(deleted))
        refuse(context, planned, view, partial=partial, restart=restart)
        require_secrets(context, planned)
        if not with_users:
            _refuse_users(context, planned)
        return planned, view

    if pruning.names:
        planned, _ = allowed(pruning.names)
        if with_users:
            tell_now(context, pruning.names)
        else:
            refuse_users_of(context, pruning)
        pruned = prune(context, pruning)
        before = before.then(pruned)
        if len(pruned.done) < len(pruned.vms) or pruned.interrupted:
            return planned, before

    told: set[str] = set()

    def attempt() -> tuple[Plan, Outcome]:
        planned, view = allowed()
        show(planned)
        if not planned.changes:
            return planned, before
        if with_users:
            _tell_users(context, planned.first, told)
        return planned, before.then(carry_out(context, planned, view, with_users=with_users))

    return until_current(attempt)


def _tell_users(context: EngineContext, planned: Plan, told: set[str]) -> None:
    """Tell the users whom its stops cut off, each once; ``told`` grows."""
    names = {each.vm.name for each in planned.actions if each.needs_restart and each.record}
    tell_now(context, names - told)
    told |= names


def _refuse_users(context: EngineContext, planned: Plan) -> None:
    """UsersAtWork where one of its stops would cut users off."""
    stopping = [each.record for each in planned.actions if each.needs_restart and each.record]
    again = "vgpumgr apply -f FILE --restart --with-users"
    refuse_cut_off(context, stopping, next=f"{again}, or wait until they have logged off")


def refuse(
    context: EngineContext, planned: Plan, view: LedgerView, *, partial: bool, restart: bool
) -> None:
    """Raise what keeps a plan from being carried out."""
    seen = observed_domains(view)
    refuse_unsteady([each.placed.request for each in planned.actions if each.placed], view.vms)
    changes = [action for action in planned.actions if action.kind is ActionKind.CHANGE]
    refuse_resting(((each.vm.name, each.host) for each in changes), seen.resting)
    for action in changes:
        refuse_impossible(action)
        refuse_more_disks(action)
        refuse_unreached(action, seen.hosts)
    if not restart:
        refuse_restart(planned.actions)
    for action in changes:
        if action.record is not None and is_reseated(action):
            state_to_move(context, action.record)
    starting = [each.record for each in planned.actions if each.kind is ActionKind.START]
    require_whole(view, [vm for vm in starting if vm is not None])
    if not partial:
        require_partitioned(view, [vm.name for vm in starting if vm is not None])
    if planned.unplaced:
        kept = refusal_explanations(view, planned, context.clock.now())
        context.ledger.refuse(kept)
        if not (partial and planned.actions):
            said, first = kept[0].explanation, planned.unplaced[0].request.name
            # What would let a new VM in is no way for one that stays on its host.
            helps = said.changes if said and all(vm.name != first for vm in view.vms) else ()
            error = no_placement(planned.unplaced, helps=helps)
            if first in planned.in_own_way:
                one_by_one = any(action.releases_first for action in planned.actions)
                again = "vgpumgr apply -f FILE --restart --at-once 1"
                error.next = again if one_by_one else release_command(first)
            error.next += _partial_instead(planned)
            raise error


def _partial_instead(planned: Plan) -> str:
    """The hint that the rest of the file can be applied without the VMs that fit nowhere."""
    fit = len(planned.actions)
    return f"; or create the {fit} that fit: vgpumgr apply -f FILE --partial" if fit else ""


def carry_out(
    context: EngineContext,
    planned: Plan,
    view: LedgerView,
    desktops: Sequence[DesktopRecord] = (),
    *,
    with_users: bool = False,
) -> Outcome:
    """Reserve the plan and execute it; StaleGeneration changes nothing.

    ``desktops`` are the rows of new VMs that belong to pools. ``with_users``: later waves stop VMs
    on which users are at work, too.
    """
    require_secrets(context, planned)
    opening = context.opening()
    start = reservation(context, planned.first, view, opening)
    waves = rolling_tasks(planned, opening, start.operation, with_users=with_users)
    start = replace(start, tasks=(*start.tasks, *waves))
    if desktops:
        start = replace(start, desktops=_with_vms(desktops, start.vms))
    if not start.tasks:
        context.ledger.enqueue(start.queued)
    return operation_lifecycle.begin(context, start)


def reservation(
    context: EngineContext, planned: Plan, view: LedgerView, opening: OperationOpening
) -> Reservation:
    """The transaction of a plan, once its images were looked at."""
    records = {host.name: host for host in view.hosts}
    check_planned(planned, records, context.hosts, context.lanes)
    return vm_reservations.apply_reservation(planned, view, opening)


def _with_vms(
    desktops: Sequence[DesktopRecord], vms: Sequence[VmRecord]
) -> tuple[DesktopRecord, ...]:
    made = {vm.name: vm for vm in vms}
    return tuple(replace(each, vm_id=made[each.name].id) for each in desktops)
