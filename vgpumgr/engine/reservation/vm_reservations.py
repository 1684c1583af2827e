"""The transactions of `apply`, `delete`, `start` and `stop`; VMs whose GPU parts are lost do not
start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from vgpumgr import layout
from vgpumgr.engine.inventory.gpu_supply import lost_usages
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.planning.automatic_layouts import with_layouts_of
from vgpumgr.engine.planning.changed_fields import needs_restart, only_bookkeeping
from vgpumgr.engine.planning.new_seats import is_reseated
from vgpumgr.engine.reservation.gpu_partitioning import layout_records, partition_steps
from vgpumgr.engine.reservation.new_seat import seat_tasks
from vgpumgr.engine.reservation.vm_creation import (
    VmCreation,
    VmSites,
    create,
    delete_steps,
    drop_filters,
)
from vgpumgr.engine.steps.domain_steps import (
    DefineDomain,
    RebootDomain,
    RedefineDomain,
    StartDomain,
    StopDomain,
)
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.apply_plan import Action, ActionKind, Plan
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.operation import OperationRecord, Reservation, TaskRecord
from vgpumgr.model.queue import QueueEntry, QueueMoved, QueueState
from vgpumgr.model.supply import Usage
from vgpumgr.model.vm import VmRecord, VmSpec, VmState


def queue_entries(
    plan: Plan,
    made: Iterable[VmRecord],
    changed: Iterable[VmRecord],
    queue: Sequence[QueueEntry],
    opening: OperationOpening,
) -> tuple[tuple[QueueEntry, ...], tuple[QueueMoved, ...]]:
    """New queue entries, and moves of existing ones: a waiting VM runs once it is ``made``, and a
    ``changed`` VM may enter or leave the queue.
    """
    waiting = {each.name: each for each in queue if each.state is QueueState.WAITING}
    running = {each.vm_id: each for each in queue if each.state is QueueState.RUNNING}
    new = [_waits(spec, opening) for spec in plan.entering]
    moves = []
    for vm in made:
        if vm.name in waiting:
            moves.append(
                QueueMoved(
                    entry=waiting[vm.name].id,
                    before=QueueState.WAITING,
                    state=QueueState.RUNNING,
                    vm_id=vm.id,
                )
            )
        elif vm.spec.queue is not None:
            new.append(_runs(vm, opening))
    for vm in changed:
        if vm.spec.queue is not None and vm.id not in running:
            new.append(_runs(vm, opening))
        elif vm.spec.queue is None and vm.id in running:
            left = QueueState.CANCELLED
            before, why = QueueState.RUNNING, "its file no longer has queue:"
            moves.append(QueueMoved(entry=running[vm.id].id, before=before, state=left, why=why))
    return tuple(new), tuple(moves)


def _waits(spec: VmSpec, opening: OperationOpening) -> QueueEntry:
    return QueueEntry(id=opening.new_uuid(), vm=spec, state=QueueState.WAITING, since=opening.now)


def _runs(vm: VmRecord, opening: OperationOpening) -> QueueEntry:
    return QueueEntry(
        id=opening.new_uuid(),
        vm=vm.spec,
        state=QueueState.RUNNING,
        since=opening.now,
        started_at=opening.now,
        vm_id=vm.id,
    )


def apply_reservation(plan: Plan, view: LedgerView, opening: OperationOpening) -> Reservation:
    """The transaction of `apply`."""
    operation = opening.operation("apply")
    placed = [action.placed for action in plan.actions if action.placed]
    cut = [each for each in placed if each.partitions]
    sites = VmSites(with_layouts_of(view, cut) if cut else view)
    creations = list(_creations(plan, sites, view, opening))
    seats = list(seat_tasks(plan, sites, view, opening, operation))
    changes = [a for a in plan.actions if a.kind is ActionKind.CHANGE and not is_reseated(a)]
    changed = [_changed(action) for action in changes]
    starting = [a.record for a in plan.actions if a.kind is ActionKind.START and a.record]
    tasks = [
        *(_task(opening, operation, "create", c.vm, c.steps) for c in creations),
        *(
            _task(opening, operation, "change", vm, _change_steps(action, vm, sites, view))
            for action, vm in zip(changes, changed, strict=True)
        ),
        *(each.task for each in seats),
        *(
            _task(opening, operation, "start", vm, _revive_steps(vm, sites, view))
            for vm in starting
        ),
    ]
    becoming = [*changed, *(each.there for each in seats)]
    queued, moves = queue_entries(plan, [c.vm for c in creations], becoming, view.queue, opening)
    taken = [part for each in creations for part in each.allocations]
    taken += [part for each in seats for part in each.allocations]
    gpus, hosts = {each.gpu for each in taken}, {each.host for each in placed}
    return Reservation(
        operation=operation,
        tasks=tuple(tasks),
        vms=tuple(creation.vm for creation in creations),
        changed_vms=(*changed, *(each.moving for each in seats)),
        allocations=tuple(taken),
        layouts=layout_records(cut, view, operation.id) if cut else (),
        gpu_generations={gpu.id: gpu.generation for gpu in view.gpus if gpu.id in gpus},
        host_generations=view.generations(hosts),
        queued=queued,
        queue=moves,
        sharing=frozenset(a.record.id for a in plan.actions if a.releases_first and a.record),
    )


def _creations(
    plan: Plan, sites: VmSites, view: LedgerView, opening: OperationOpening
) -> Iterator[VmCreation]:
    for action in plan.actions:
        if action.kind is ActionKind.CREATE and action.placed is not None:
            placed, site = action.placed, sites.site(action.host)
            first = partition_steps(placed, view) if placed.partitions else ()
            yield create(placed, site, opening, first)


def delete_reservation(
    vms: Iterable[VmRecord],
    view: LedgerView,
    opening: OperationOpening,
    *,
    keep_disks: bool,
) -> Reservation:
    """The transaction of `delete`. A process that has planned a clone of a snapshot that goes plans
    again.
    """
    operation = opening.operation("delete")
    sites = VmSites(view)
    leaving = [replace(vm, state=VmState.DELETING) for vm in vms]
    kept = {vm.host for vm in leaving if vm.snapshots and not keep_disks}
    return Reservation(
        operation=operation,
        tasks=tuple(
            _task(
                opening,
                operation,
                "delete",
                vm,
                delete_steps(vm, sites.allocations(vm), keep_disks=keep_disks),
            )
            for vm in leaving
        ),
        changed_vms=tuple(leaving),
        host_generations={host.name: host.generation for host in view.hosts if host.name in kept},
    )


def power_reservation(
    vms: Iterable[VmRecord],
    view: LedgerView,
    opening: OperationOpening,
    *,
    verb: str,
    force: bool,
    timeout_s: float,
) -> Reservation:
    """Start, stop or reboot."""
    operation = opening.operation(f"vm {verb}")
    sites = VmSites(view)

    def chosen(vm: VmRecord) -> tuple[Step, ...]:
        if verb == "start":
            return _revive_steps(vm, sites, view)
        if verb == "stop":
            return (StopDomain(name=vm.name, vm_id=vm.id, force=force, timeout_s=timeout_s),)
        return (RebootDomain(name=vm.name, vm_id=vm.id, force=force),)

    tasks = tuple(_task(opening, operation, verb, vm, chosen(vm)) for vm in vms)
    return Reservation(operation=operation, tasks=tasks)


def _task(
    opening: OperationOpening,
    operation: OperationRecord,
    verb: str,
    vm: VmRecord,
    work: Sequence[Step],
) -> TaskRecord:
    return opening.task(operation, verb, work, vm_id=vm.id, vm=vm.name, host=vm.host)


def _changed(action: Action) -> VmRecord:
    if action.record is None:
        raise AssertionError("a change has a record")
    return replace(action.record, spec=action.vm, generation=action.record.generation + 1)


def _change_steps(
    action: Action, vm: VmRecord, sites: VmSites, view: LedgerView
) -> tuple[Step, ...]:
    old = action.record
    if old is None or only_bookkeeping(old.spec, vm.spec):
        return ()
    restart = needs_restart(old.spec, vm.spec)
    runs = (vm.host, vm.name) in observed_domains(view).running
    stop = (StopDomain(name=vm.name, vm_id=vm.id),) if runs and restart else ()
    start = sites.power_on(vm) if stop or (vm.running and not runs) else ()
    redefine = RedefineDomain(
        name=vm.name,
        vm_id=vm.id,
        xml=sites.definition(vm),
        old_xml=sites.definition(old),
        autostart=sites.site(vm.host).autostarts(vm.spec),
    )
    return (*stop, redefine, *start, *drop_filters(old.spec, vm.spec))


def _revive_steps(vm: VmRecord, sites: VmSites, view: LedgerView) -> tuple[Step, ...]:
    """Devices, the definition where the host lost it, then power."""
    devices_and_power = sites.power_on(vm)
    if (vm.host, vm.name) in observed_domains(view).defined:
        return devices_and_power
    define = DefineDomain(
        name=vm.name,
        vm_id=vm.id,
        xml=sites.definition(vm),
        autostart=sites.site(vm.host).autostarts(vm.spec),
    )
    power = next(n for n, each in enumerate(devices_and_power) if isinstance(each, StartDomain))
    return (*devices_and_power[:power], define, *devices_and_power[power:])


def require_whole(view: LedgerView, vms: Collection[VmRecord]) -> None:
    """Conflict when the GPU parts of one of these VMs were released: it would start without."""
    held = Counter(each.vm_id for each in view.allocations)
    for vm in vms:
        wanted = sum(each.count for each in vm.spec.gpus)
        if held[vm.id] < wanted:
            raise Conflict(
                f"{vm.name} cannot start: its GPU parts were released",
                why=f"it asks for {wanted} and holds {held[vm.id]}: nothing of it was left on "
                f"{vm.host}",
                next=f"vgpumgr vm delete {vm.name}, then apply its file again",
            )


def require_partitioned(view: LedgerView, names: Collection[str]) -> None:
    """Conflict when the lost part of one of these VMs could not be made as its GPU is now."""
    found = list(lost_partitions(view, names))
    if not found:
        return
    lost = {usage.vm for _, usage, _ in found}
    waiting = [name for name in names if name in lost]
    more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    lines = dict.fromkeys(
        f"{gpu.host}: {gpu.facts.model} {gpu.facts.device}: {', '.join(lacks)}"
        for gpu, _, lacks in found
    )
    raise Conflict(
        f"{waiting[0]}{more} cannot start: the GPU is not partitioned as it was",
        why="; ".join(lines),
        next=_way_back(view, [gpu for gpu, _, _ in found]),
    )


def lost_partitions(
    view: LedgerView, names: Collection[str]
) -> Iterator[tuple[GpuRecord, Usage, tuple[str, ...]]]:
    """The GPUs of these VMs that lack the partitioning for a part that was lost: each with that
    part and what it lacks. Hosts that were not read are left out.
    """
    facts = {host.name: host.facts for host in view.hosts if host.facts and not host.last_error}
    layouts = {record.gpu: record for record in view.layouts}
    held: dict[str, list[Allocation]] = {}
    for each in view.allocations:
        if each.vm in names:
            held.setdefault(each.gpu, []).append(each)
    for gpu in view.gpus:
        if gpu.id not in held or gpu.host not in facts:
            continue
        host, layout_now = facts[gpu.host], layouts.get(gpu.id)
        for usage in lost_usages(gpu.facts, host, held[gpu.id], layout_now):
            if lacks := layout.lacks(gpu.facts, usage):
                yield gpu, usage, lacks


def _way_back(view: LedgerView, gpus: list[GpuRecord]) -> str:
    """The layout that was applied last says how it was; without one the user must."""
    known = {record.gpu for record in view.layouts}
    if all(gpu.id in known for gpu in gpus):
        return "vgpumgr layout apply, then the same command again"
    return "vgpumgr layout apply -f FILE with a Layout that brings this back"
