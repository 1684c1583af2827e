"""A plan or a wish → the reservation that one transaction writes: records, tasks, steps. Pure
but for the ids, which come from the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from vgpumgr.engine import steps
from vgpumgr.engine.changes import needs_restart, only_bookkeeping
from vgpumgr.engine.creation import Creation, Site, create, domain_xml
from vgpumgr.engine.lifecycle import delete_steps, start_steps
from vgpumgr.engine.planning import reached
from vgpumgr.engine.steps import (
    DefineDomain,
    RebootDomain,
    RedefineDomain,
    Step,
    StopDomain,
)
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import Conflict, HostUnreachable, NotFound
from vgpumgr.model.journal import (
    FINAL_TASKS,
    OperationRecord,
    OperationState,
    Reservation,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.plan import Action, ActionKind, Plan
from vgpumgr.model.vm import Allocation, VmRecord, VmState

NewUuid = Callable[[], str]


class Sites:
    """The view's hosts as sites, and each VM's allocations."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._hosts = {host.name: host for host in view.hosts}
        self._gpus = {gpu.id: gpu for gpu in view.gpus}
        self._held: dict[str, list[Allocation]] = {}
        for allocation in view.allocations:
            self._held.setdefault(allocation.vm_id, []).append(allocation)

    def site(self, host: str) -> Site:
        """The site of a host; NotFound when it was never probed."""
        record = self._hosts[host]
        if record.facts is None:
            raise NotFound(f"host {host} was never probed", next=f"vgpumgr host probe {host}")
        return Site(self._view.fleet, record, record.facts, self._gpus)

    def allocations(self, vm: VmRecord) -> tuple[Allocation, ...]:
        """What a VM holds."""
        return tuple(self._held.get(vm.id, ()))

    def power_on(self, vm: VmRecord) -> tuple[Step, ...]:
        """Devices, their NVSwitch partition, then power."""
        modules = {gpu.id: gpu.facts.module_id for gpu in self._view.gpus if gpu.host == vm.host}
        return start_steps(vm, self.allocations(vm), modules)

    def definition(self, vm: VmRecord) -> str:
        """A VM's domain XML."""
        return domain_xml(vm, self.allocations(vm), self.site(vm.host))


def application(
    plan: Plan, view: LedgerView, epoch: int, new_uuid: NewUuid, now: float
) -> Reservation:
    """Everything apply writes before its first effect."""
    operation = _operation("apply", epoch, new_uuid, now)
    sites = Sites(view)
    creations = [
        create(action.placed, sites.site(action.host), new_uuid, now)
        for action in plan.actions
        if action.placed
    ]
    changes = [action for action in plan.actions if action.kind is ActionKind.CHANGE]
    changed = [_changed(action) for action in changes]
    tasks = [
        *(_task(operation, "create", c.vm, c.steps, new_uuid) for c in creations),
        *(
            _task(operation, "change", vm, _change_steps(action, vm, sites, view), new_uuid)
            for action, vm in zip(changes, changed, strict=True)
        ),
        *(
            _task(operation, "start", vm, _revive_steps(vm, sites, view), new_uuid)
            for vm in _to_start(plan)
        ),
    ]
    gpus = {allocation.gpu for creation in creations for allocation in creation.allocations}
    hosts = {creation.vm.host for creation in creations}
    return Reservation(
        operation=operation,
        tasks=tuple(tasks),
        vms=tuple(creation.vm for creation in creations),
        changed_vms=tuple(changed),
        allocations=_all_allocations(creations),
        gpu_generations={gpu.id: gpu.generation for gpu in view.gpus if gpu.id in gpus},
        host_generations={host.name: host.generation for host in view.hosts if host.name in hosts},
    )


def deletion(
    vms: Iterable[VmRecord],
    view: LedgerView,
    epoch: int,
    new_uuid: NewUuid,
    now: float,
    *,
    keep_disks: bool,
) -> Reservation:
    """Everything delete writes before its first effect."""
    operation = _operation("delete", epoch, new_uuid, now)
    sites = Sites(view)
    leaving = [replace(vm, state=VmState.DELETING) for vm in vms]
    return Reservation(
        operation=operation,
        tasks=tuple(
            _task(
                operation,
                "delete",
                vm,
                delete_steps(vm, sites.allocations(vm), keep_disks=keep_disks),
                new_uuid,
            )
            for vm in leaving
        ),
        changed_vms=tuple(leaving),
    )


def power(
    vms: Iterable[VmRecord],
    view: LedgerView,
    epoch: int,
    new_uuid: NewUuid,
    now: float,
    *,
    verb: str,
    force: bool,
    timeout_s: float,
) -> Reservation:
    """Start, stop or reboot."""
    operation = _operation(f"vm {verb}", epoch, new_uuid, now)
    sites = Sites(view)

    def chosen(vm: VmRecord) -> tuple[Step, ...]:
        if verb == "start":
            return _revive_steps(vm, sites, view)
        if verb == "stop":
            return (StopDomain(name=vm.name, vm_id=vm.id, force=force, timeout_s=timeout_s),)
        return (RebootDomain(name=vm.name, vm_id=vm.id, force=force),)

    tasks = tuple(_task(operation, verb, vm, chosen(vm), new_uuid) for vm in vms)
    return Reservation(operation=operation, tasks=tasks)


def to_undo(
    tasks: Iterable[TaskRecord], names: Collection[str] | None = None
) -> tuple[TaskRecord, ...]:
    """Unfinished creations (of these VMs) marked to be taken back; the rest only goes forward."""

    def chosen(task: TaskRecord) -> bool:
        return task.state not in FINAL_TASKS and (names is None or task.vm in names)

    return tuple(_marked_undoing(task) if chosen(task) else task for task in tasks)


def _marked_undoing(task: TaskRecord) -> TaskRecord:
    if task.verb != "create":
        raise Conflict(
            f"{task.verb} {task.vm} cannot be taken back",
            why="it only goes forward",
            next=f"vgpumgr operation resume {task.operation[:8]}",
        )
    return replace(task, state=TaskState.UNDOING, error=task.error or "undone by request")


def refuse_running(vms: Iterable[VmRecord], view: LedgerView) -> None:
    """Conflict when a VM runs, or nobody can tell: deleting it needs ``--force``."""
    vms = tuple(vms)
    seen = reached(view)
    for vm in vms:
        if vm.host not in seen.hosts:
            raise HostUnreachable(
                f"cannot tell whether {vm.name} runs",
                why=f"host {vm.host} did not answer",
                next=f"vgpumgr host probe {vm.host}, or delete with --force",
            )
    names = [vm.name for vm in vms if (vm.host, vm.name) in seen.running]
    if names:
        raise Conflict(
            f"still running: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}",
            next=f"vgpumgr vm stop {names[0]}, or delete with --force",
        )


def _operation(kind: str, epoch: int, new_uuid: NewUuid, now: float) -> OperationRecord:
    return OperationRecord(
        id=new_uuid(), kind=kind, state=OperationState.RUNNING, epoch=epoch, started_at=now
    )


def _task(
    operation: OperationRecord,
    verb: str,
    vm: VmRecord,
    work: Sequence[Step],
    new_uuid: NewUuid,
) -> TaskRecord:
    return TaskRecord(
        id=new_uuid(),
        operation=operation.id,
        vm_id=vm.id,
        vm=vm.name,
        host=vm.host,
        verb=verb,
        steps=steps.to_records(tuple(work)),
    )


def _all_allocations(creations: Iterable[Creation]) -> tuple[Allocation, ...]:
    return tuple(allocation for creation in creations for allocation in creation.allocations)


def _changed(action: Action) -> VmRecord:
    if action.record is None:
        raise AssertionError("a change has a record")
    return replace(action.record, spec=action.vm, generation=action.record.generation + 1)


def _change_steps(action: Action, vm: VmRecord, sites: Sites, view: LedgerView) -> tuple[Step, ...]:
    old = action.record
    if old is None or only_bookkeeping(old.spec, vm.spec):
        return ()
    restart = needs_restart(old.spec, vm.spec)
    runs = (vm.host, vm.name) in reached(view).running
    stop = (StopDomain(name=vm.name, vm_id=vm.id),) if runs and restart else ()
    start = sites.power_on(vm) if stop or (vm.running and not runs) else ()
    redefine = RedefineDomain(
        name=vm.name,
        vm_id=vm.id,
        xml=sites.definition(vm),
        old_xml=sites.definition(old),
        autostart=vm.spec.autostart,
    )
    return (*stop, redefine, *start)


def _to_start(plan: Plan) -> list[VmRecord]:
    return [a.record for a in plan.actions if a.kind is ActionKind.START and a.record]


def _revive_steps(vm: VmRecord, sites: Sites, view: LedgerView) -> tuple[Step, ...]:
    """Devices, the definition where the host lost it, then power."""
    devices_and_power = sites.power_on(vm)
    if (vm.host, vm.name) in reached(view).defined:
        return devices_and_power
    define = DefineDomain(
        name=vm.name, vm_id=vm.id, xml=sites.definition(vm), autostart=vm.spec.autostart
    )
    return (*devices_and_power[:-1], define, devices_and_power[-1])
