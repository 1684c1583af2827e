"""`host drain`: every VM moved off a host to the best target that takes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from vgpumgr.engine.desktops.desktop_state import floating_desktops
from vgpumgr.engine.desktops.user_sessions import UserAtWork, at_work
from vgpumgr.engine.hosts.evacuation_plan import on_host
from vgpumgr.engine.hosts.host_marks import DRAINED, mark, marked_while
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration import move_plan, move_reservation, vm_migrate
from vgpumgr.engine.migration.move_plan import MoveCheck, MovePlan
from vgpumgr.engine.migration.move_plan_maker import wanted
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.operations.refusals import MOST_ALTERNATES
from vgpumgr.engine.planning.vm_admission import no_placement
from vgpumgr.model.errors import Conflict, VgpumgrError
from vgpumgr.model.operation import MIGRATE, RESEAT, TaskState
from vgpumgr.model.placement import NotPlaced
from vgpumgr.model.vm import VmRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """The result of a drain: the moves, the VMs that stay with their reasons, and the users that
    were cut off.
    """

    host: str
    outcome: Outcome
    staying: tuple[DrainTarget, ...] = ()
    cut_off: tuple[UserAtWork, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest:
    """How a host is emptied: to these hosts (empty: any), cold where a VM cannot move running.

    With ``logoff_by`` (Unix time in seconds) floating desktops stay until their users log off, or
    till then: their pools take them away. ``with_users``: cold moves even cut users off.
    """

    host: str
    to: tuple[str, ...] = ()
    cold: bool = False
    with_users: bool = False
    timeout_s: float | None = None
    logoff_by: float | None = None


def plan(context: EngineContext, drain: DrainRequest) -> tuple[DrainTarget, ...]:
    """Probe, then say where every VM would go; nothing is changed.

    Hosts that hang are left out, unless a VM finds no place on the rest.
    """
    left_out = _look(context, drain)
    choices = _chosen(context, drain)
    if left_out and any(choice.move is None for choice in choices):
        context.refresh(left_out)
        choices = _chosen(context, drain)
    return choices


def _chosen(context: EngineContext, drain: DrainRequest) -> tuple[DrainTarget, ...]:
    view, found = context.view(), []
    for vm in on_host(view.vms, drain.host):
        choice = _desktop(context, vm, drain) or choose_target(context, view, vm, drain)
        if choice.move is not None:
            view = moved_view(view, choice.move[0], context.opening())
        found.append(choice)
    return tuple(found)


def drain(context: EngineContext, wanted: DrainRequest) -> DrainReport:
    """Cordon the host and move its VMs away, one after the other.

    An interrupted move is resumed first, and a repeated call resumes the drain. Hosts that hang are
    waited for when a VM finds no place on the rest. A host that does not answer is left unchanged;
    after an interruption by a person it stays cordoned, and the drain has ended.
    """
    for name in wanted.to:
        context.ledger.host(name)
    marks = {"draining": True, "drain_to": wanted.to, "logoff_by": wanted.logoff_by}
    with marked_while(context, wanted.host, cordoned=True, **marks):
        left_out = _look(context, wanted)
    drained = _move_away(context, wanted)
    if context.stop.is_set():
        mark(context, wanted.host, **DRAINED)
        return drained
    if not (drained.staying and left_out):
        return drained
    context.refresh(left_out)
    rest = _move_away(context, wanted)
    return replace(
        rest,
        outcome=drained.outcome.then(rest.outcome),
        cut_off=(*drained.cut_off, *rest.cut_off),
    )


def step(context: EngineContext, host: str) -> DrainReport:
    """Move the next VM of a draining host, as its operator requested; never cold.

    The other hosts are taken as last observed, except the target.
    """
    record = context.ledger.host(host)
    if not record.draining:
        return DrainReport(host=host, outcome=Outcome())
    wanted = DrainRequest(host=host, to=record.drain_to, logoff_by=record.logoff_by)
    return _move_away(context, wanted, most=1)


def _move_away(
    context: EngineContext, wanted: DrainRequest, most: int | None = None
) -> DrainReport:
    """At most ``most`` of its VMs now."""
    outcome = finish_moves(context, wanted.host)
    staying: list[DrainTarget] = []
    cut_off: list[UserAtWork] = []
    for vm in _waiting(context, wanted.host, outcome):
        if context.stop.is_set() or len(outcome.done) == most:
            break
        choice, moved = leave_for_any(context, vm, wanted)
        outcome = outcome.then(moved)
        if choice.move is None:
            staying.append(choice)
        elif choice.user is not None and not choice.move[0].live:
            cut_off.append(choice.user)
    return DrainReport(
        host=wanted.host, outcome=outcome, staying=tuple(staying), cut_off=tuple(cut_off)
    )


def end(context: EngineContext, host: str) -> None:
    """Place VMs there again; what was moved away stays away. Conflict in maintenance."""
    if context.ledger.host(host).maintenance:
        raise Conflict(f"{host} is in maintenance", next=f"vgpumgr host maintenance {host} --off")
    mark(context, host, cordoned=False, settled_boot="", **DRAINED)


def _look(context: EngineContext, wanted: DrainRequest) -> frozenset[str]:
    """Probe the host and the possible targets; returns the targets that have not answered in time.

    A host that does not answer cannot be drained.
    """
    host = wanted.host
    error = context.refresh([host]).failed.get(host)
    if error is not None:
        error.next = f"vgpumgr host probe {host}, or if it is lost: vgpumgr host evacuate {host}"
        raise error
    with context.looking(wanted.to, others=not wanted.to, without={host}) as hosts:
        hosts.wait()
        return hosts.left_out


def finish_moves(context: EngineContext, host: str) -> Outcome:
    """Finish what a cut move of its VMs has left."""
    names = {vm.name: vm.spec for vm in on_host(context.ledger.vms(), host)}
    return operation_lifecycle.finish_leftovers(context, names, {MIGRATE, RESEAT})


def _waiting(context: EngineContext, host: str, before: Outcome) -> Iterator[VmRecord]:
    """The VMs that are still on the host, except a VM whose move could not be ended.

    Meanwhile a pool deletes its unused desktops.
    """
    for vm in on_host(context.ledger.vms(), host):
        if vm.name not in before.waiting and _is_there(context, vm):
            yield vm


def _is_there(context: EngineContext, vm: VmRecord) -> bool:
    return any(each.id == vm.id for each in on_host(context.ledger.vms(), vm.host))


def leave_for_any(
    context: EngineContext, vm: VmRecord, wanted: DrainRequest
) -> tuple[DrainTarget, Outcome]:
    """To the best target that does not refuse it; the last refusal stands where all do."""
    choice, moved = until_current(partial(_leave, context, vm, wanted, ()))
    tried: list[str] = []
    while choice.move is not None and _was_refused(context, moved) and len(tried) < MOST_ALTERNATES:
        tried.append(choice.move[0].target.name)
        other, again = until_current(partial(_leave, context, vm, wanted, tuple(tried)))
        if other.move is None:
            break
        choice, moved = other, again
    return choice, moved


def _was_refused(context: EngineContext, moved: Outcome) -> bool:
    """Was it undone because its target refused?"""
    undone = any(each.state is TaskState.UNDONE for each in moved.vms)
    return undone and bool(context.ledger.refusals(moved.operation))


def _leave(
    context: EngineContext, vm: VmRecord, wanted: DrainRequest, tried: Sequence[str]
) -> tuple[DrainTarget, Outcome]:
    view = context.view()
    choice = _desktop(context, vm, wanted) or choose_target(context, view, vm, wanted, tried)
    if choice.move is None:
        return choice, Outcome()
    return choice, operation_lifecycle.begin(
        context, vm_migrate.move_reservation_of(context, *choice.move)
    )


def choose_target(
    context: EngineContext,
    view: LedgerView,
    vm: VmRecord,
    wanted: DrainRequest,
    tried: Sequence[str] = (),
) -> DrainTarget:
    """The best of the hosts that it may go to, by a look at both; or why there is none."""

    def planned(target: str, cold: bool) -> tuple[move_plan.MovePlan, LedgerView]:
        how = vm_migrate.MoveManner(
            cold=cold, timeout_s=wanted.timeout_s, with_users=wanted.with_users
        )
        return vm_migrate.plan(context, vm.name, target, how)

    hosts = [h for h in wanted.to or _others(view, wanted.host) if h not in tried]
    user = at_work(context.ledger, view).get(vm.id)
    try:
        return choose(view, vm, hosts, context.place, planned, cold=wanted.cold, user=user)
    except VgpumgrError as error:
        return DrainTarget(vm, why=str(error), next=error.next)


def _desktop(context: EngineContext, vm: VmRecord, wanted: DrainRequest) -> DrainTarget | None:
    """A floating desktop stays where its user may log off in peace."""
    if wanted.logoff_by is None:
        return None
    pool = floating_desktops(context.ledger).get(vm.id)
    if pool is None:
        return None
    why = f"a desktop of pool {pool}: it goes when its user logs off"
    return DrainTarget(vm, why=why, next=f"vgpumgr pool show {pool}", leaves=True)


def _others(view: LedgerView, host: str) -> Sequence[str]:
    others = (each for each in view.hosts if each.name != host)
    return [each.name for each in others if not (each.cordoned or each.at_rest)]


def moved_view(view: LedgerView, plan: move_plan.MovePlan, opening: OperationOpening) -> LedgerView:
    """The VM on its target, and what it takes there, beside what it holds now."""
    start = move_reservation.reservation(plan, view, opening)
    changed = {vm.id: vm for vm in start.changed_vms}
    return replace(
        view,
        vms=tuple(changed.get(vm.id, vm) for vm in view.vms),
        allocations=(*view.allocations, *start.allocations),
    )


# (host, cold) → the plan of a move there; raises what keeps it from being planned.
Planner = Callable[[str, bool], tuple[MovePlan, LedgerView]]

# Where a check is about the VM alone, no other host passes it.
_OF_THE_VM = frozenset({"framework", "power", "users"})
_MOST_TRIES = 8


@dataclass(frozen=True, slots=True)
class DrainTarget:
    """The move of a VM, with the view it was planned from; or why there is none. ``leaves``: it
    will go by itself. ``user`` is at work on it; with ``cut_off`` that alone keeps it there.
    """

    vm: VmRecord
    move: tuple[MovePlan, LedgerView] | None = None
    why: str = ""
    next: str = ""
    leaves: bool = False
    user: UserAtWork | None = None
    cut_off: bool = False


def choose(
    view: LedgerView,
    vm: VmRecord,
    hosts: Collection[str],
    place: PlaceFunction,
    plan: Planner,
    *,
    cold: bool,
    user: UserAtWork | None = None,
) -> DrainTarget:
    """Live to the best of ``hosts`` that takes it; with ``cold`` cold where no host does so.

    A VM that is off moves either way. The refusal is that of the way that was asked for; ``user``
    is at work on it.
    """
    found = _target(view, vm, hosts, place, plan, cold=cold)
    return replace(found, user=user) if user is not None else found


def _target(
    view: LedgerView,
    vm: VmRecord,
    hosts: Collection[str],
    place: PlaceFunction,
    plan: Planner,
    *,
    cold: bool,
) -> DrainTarget:
    runs = (vm.host, vm.name) in observed_domains(view).running
    search = _Search(view, vm, hosts, place, plan)
    found = search.run(cold=False, live=runs)
    if found.move is not None or not runs:
        return found
    colder = search.run(cold=True, live=False)
    if cold:
        return colder
    if colder.move is not None:
        return replace(found, next=f"vgpumgr host drain {vm.host} --cold   (it is stopped for it)")
    return found


@dataclass(slots=True)
class _Search:
    view: LedgerView
    vm: VmRecord
    hosts: Collection[str]
    place: PlaceFunction
    plan: Planner
    refused: dict[str, str] = field(default_factory=dict)

    def run(self, *, cold: bool, live: bool) -> DrainTarget:
        """Placement's best first; a host that fails a check is left out of the next try."""
        self.refused = {}
        first: MoveCheck | VgpumgrError | None = None
        while len(self.refused) < _MOST_TRIES:
            target = self._best(live=live)
            if isinstance(target, DrainTarget):
                return self._none(first) if first else target
            failed = self._try(target, cold=cold)
            if isinstance(failed, DrainTarget):
                return failed
            first = first or failed
            if isinstance(failed, MoveCheck) and failed.name in _OF_THE_VM:
                break
        return self._none(first)

    def _best(self, *, live: bool) -> str | DrainTarget:
        own = self.vm.spec.affinity.hosts
        left = [h for h in self.hosts if h not in self.refused and (not own or h in own)]
        if not left:
            why = f"its affinity allows only {', '.join(own)}" if own else "no other host"
            return DrainTarget(self.vm, why=why, next="vgpumgr host list")
        held = [each for each in self.view.allocations if each.vm_id == self.vm.id]
        request = wanted(self.view, self.vm.spec, held, "", live=live)
        request = replace(request, affinity=replace(request.affinity, hosts=tuple(left)))
        rest = replace(self.view, vms=tuple(v for v in self.view.vms if v.id != self.vm.id))
        [decision] = self.place(build_fleet(rest), [request])
        if isinstance(decision, NotPlaced):
            others = tuple(each for each in decision.reasons if each.host != self.vm.host)
            error = no_placement([replace(decision, reasons=others or decision.reasons)])
            explain = "vgpumgr map, vgpumgr capacity: free capacity, then the same command again"
            return DrainTarget(self.vm, why=error.why, next=explain)
        return decision.host

    def _try(self, target: str, *, cold: bool) -> DrainTarget | MoveCheck | VgpumgrError:
        try:
            move = self.plan(target, cold)
        except VgpumgrError as error:
            self.refused[target] = error.message
            return error
        failed = next((check for check in move[0].checks if not check.holds), None)
        if failed is None:
            return DrainTarget(self.vm, move)
        self.refused[target] = failed.text
        return failed

    def _none(self, first: MoveCheck | VgpumgrError | None) -> DrainTarget:
        """Why each host that was tried refuses, equal ones once."""
        why = "; ".join(dict.fromkeys(self.refused.values()))
        if isinstance(first, MoveCheck) and first.name == "users":
            again = f"vgpumgr host drain {self.vm.host} --cold --with-users, or --logoff-within 4h"
            return DrainTarget(self.vm, why=why, next=again, cut_off=True)
        return DrainTarget(self.vm, why=why, next=(first.next if first else "") or "vgpumgr map")
