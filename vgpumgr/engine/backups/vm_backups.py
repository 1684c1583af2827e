"""`backup create`: what all disks of a VM hold at one moment, copied to a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vgpumgr import domainxml
from vgpumgr.engine.backups.backup_places import require_target, target_of
from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.operations import operation_lifecycle, operation_status
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import refuse_resting, until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.vm_volumes import AttachedVolume, attached
from vgpumgr.engine.steps.backup_steps import BackUpDisks, SourceDisk
from vgpumgr.model.domain import OFF, DiskType, DomainState
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import HostFacts
from vgpumgr.model.operation import BACK_UP, Reservation
from vgpumgr.model.ports import Host
from vgpumgr.model.snapshot import DiskMoment
from vgpumgr.model.vm import VmRecord
from vgpumgr.model.vm_backup import (
    BackupState,
    BackupTarget,
    VmBackup,
    chain_of,
    checkpoints_of,
    damaged,
)


@dataclass(frozen=True, slots=True)
class PlannedBackup:
    """A VM that can be backed up now, and the moment its disks will be of. ``parent`` is the backup
    since which alone is copied; ``marks``: what is written from then on is remembered.
    """

    vm: VmRecord
    moment: DiskMoment
    parent: VmBackup | None = None
    marks: bool = False


def create(
    context: EngineContext, name: str, target: str = "", *, freeze: bool | None = None
) -> tuple[Outcome, VmBackup]:
    """Back up a VM, off or running; with ``freeze`` (None: as the target says, where the guest has
    an agent) its file systems are frozen for the moment. An interrupted one is undone first: what
    it copied is of another moment. Conflict where there can be none, with the reason.
    """
    chosen = target_of(context, target)

    def attempt() -> tuple[Outcome, VmBackup]:
        planned = plan(context, name, chosen, freeze)
        start = reservation([planned], chosen, context.view(), context.opening())
        return operation_lifecycle.begin(context, start), start.backups[0]

    return until_current(attempt)


def plan(
    context: EngineContext, name: str, target: BackupTarget, freeze: bool | None = None
) -> PlannedBackup:
    """Look at the VM and its host; raises why it cannot be backed up to that target."""
    _undo_cut(context, name)
    vm = context.ledger.vm(name)
    refuse_always(context, vm)
    for error in context.refresh({vm.host}).failed.values():
        raise error
    view = context.view()
    refuse_resting([(vm.name, vm.host)], observed_domains(view).resting)
    facts = next(each.facts for each in view.hosts if each.name == vm.host)
    assert facts is not None, "it was probed just now"
    require_target(target, vm, facts)
    moment = _moment(context.host(vm.host), vm, _frozen(vm, target, freeze))
    if moment is DiskMoment.OFF:
        _refuse_unread(vm, facts)
        return PlannedBackup(vm, moment)
    marks = target.full_every > 1 and all(_remembers(each, facts) for each in attached(vm))
    parent = _parent(context, vm, target) if marks else None
    return PlannedBackup(vm, moment, parent, marks)


def _remembers(volume: AttachedVolume, facts: HostFacts) -> bool:
    """Can QEMU write down in the disk's own file what changes?"""
    kinds = {each.name: each.disk_type for each in facts.pools}
    is_file = kinds.get(volume.pool) is DiskType.FILE and volume.format == "qcow2"
    return volume.disk is None or is_file


def _parent(context: EngineContext, vm: VmRecord, target: BackupTarget) -> VmBackup | None:
    """The newest backup there, where its host remembers that moment, it is sound, and its chain is
    not as long as it may be.
    """
    backups = context.ledger.vm_backups(vm.id)
    mine = [
        each for each in backups if each.target == target.name and each.state is BackupState.THERE
    ]
    newest = max(mine, key=lambda each: each.created_at, default=None)
    if newest is None or newest.host != vm.host:
        return None
    if newest.id in damaged(backups) or len(chain_of(newest, backups)) >= target.full_every:
        return None
    known = context.host(vm.host).domains.checkpoints(vm.name)
    return newest if newest.checkpoint in known else None


def _refuse_unread(vm: VmRecord, facts: HostFacts) -> None:
    """Conflict where libvirt cannot read the disks of a VM that is off."""
    network = {each.name for each in facts.pools if each.disk_type is DiskType.NETWORK}
    if found := [pool for pool, _ in vm.volumes if pool in network]:
        raise Conflict(
            f"{vm.name} cannot be backed up while it is off",
            why=f"its storage pool {found[0]} is read over the network, by QEMU alone",
            next=f"vgpumgr vm start {vm.name}, then the same command",
        )


def _undo_cut(context: EngineContext, name: str) -> None:
    vm = context.ledger.vm(name)
    found = operation_lifecycle.unfinished_operations(context.ledger, {vm.name}, {BACK_UP})
    for operation, waits in found:
        left = context.unasked and operation_status.is_left(operation, context.clock.now())
        if waits and not left:
            operation_lifecycle.undo(context, operation.id)


def refuse_always(context: EngineContext, vm: VmRecord) -> None:
    """Conflict for a VM whose disks are not the fleet's, or that has none, or is not at rest."""
    if vm.definition:
        raise Conflict(
            f"{vm.name} cannot be backed up",
            why="it was adopted: its disks are not the fleet's",
            next="vgpumgr image import, then a VM with that image",
        )
    if not vm.spec.disks:
        raise Conflict(f"{vm.name} cannot be backed up", why="it has no disks")
    operation_lifecycle.refuse_unfinished(context.ledger, [vm])


def _frozen(vm: VmRecord, target: BackupTarget, freeze: bool | None) -> bool:
    if freeze and not vm.spec.agent:
        raise Conflict(
            f"{vm.name} has no guest agent that could freeze it",
            why="its file does not say agent: true",
            next=f"the same command without --freeze, or vgpumgr vm stop {vm.name} first",
        )
    return vm.spec.agent and (target.freeze if freeze is None else freeze)


def _moment(host: Host, vm: VmRecord, freeze: bool) -> DiskMoment:
    """As its domain is now; Conflict where it is neither off nor runs."""
    found = host.domains.look(vm.name)
    if found is None:
        return DiskMoment.OFF
    left = domainxml.state_beside_disks(host.domains.xml(vm.name))
    if left and not vm.spec.tpm:
        raise Conflict(
            f"{vm.name} cannot be backed up",
            why=f"its {left}, which its file does not say, has a state that would be left out",
            next=f"vgpumgr drift {vm.host}",
        )
    if found.state in OFF:
        _refuse_saved(host, vm)
        return DiskMoment.OFF
    if found.state is not DomainState.RUNNING:
        raise Conflict(
            f"{vm.name} is {found.state} on {vm.host}", next=f"vgpumgr vm stop {vm.name}"
        )
    return DiskMoment.FROZEN if freeze else DiskMoment.RUNNING


def _refuse_saved(host: Host, vm: VmRecord) -> None:
    if host.domains.kept_beside(vm.name).saved_state:
        raise Conflict(
            f"{vm.name}: its memory is saved to disk on {vm.host}",
            why="it belongs to the disks as they are",
            next=f"virsh managedsave-remove {vm.name}",
        )


def reservation(
    planned: Sequence[PlannedBackup],
    target: BackupTarget,
    view: LedgerView,
    opening: OperationOpening,
    *,
    scheduled: bool = False,
) -> Reservation:
    """The transaction of backups, a task each. The VMs stay as they are; what would change one
    waits until its backup is made.
    """
    operation = opening.operation("backup create")
    made, tasks = [], []
    for each in planned:
        vm = each.vm
        backup = VmBackup(
            id=opening.new_uuid(),
            vm_id=vm.id,
            vm=vm.name,
            tenant=vm.spec.tenant,
            target=target.name,
            pool=target.pool,
            host=vm.host,
            created_at=opening.now,
            moment=each.moment,
            scheduled=scheduled,
            parent=each.parent.id if each.parent else "",
        )
        step = _step(each, backup, view.fleet)
        task = opening.task(operation, BACK_UP, [step], vm_id=vm.id, vm=vm.name, host=vm.host)
        made.append(replace(backup, task=task.id))
        tasks.append(task)
    hosts = {each.vm.host for each in planned}
    return Reservation(
        operation=operation,
        tasks=tuple(tasks),
        backups=tuple(made),
        host_generations={each.name: each.generation for each in view.hosts if each.name in hosts},
    )


def _step(planned: PlannedBackup, backup: VmBackup, fleet: str) -> BackUpDisks:
    vm, parent = planned.vm, planned.parent
    disks = tuple(
        SourceDisk(
            guest_name=each.guest_name,
            pool=each.pool,
            name=each.name,
            copy=backup.volume(each.guest_name),
            below=parent.volume(each.guest_name) if parent else "",
        )
        for each in attached(vm)
        if each.disk is not None
    )
    return BackUpDisks(
        backup=backup.id,
        fleet=fleet,
        name=vm.name,
        vm_id=vm.id,
        pool=backup.pool,
        manifest=backup.manifest,
        disks=disks,
        moment=backup.moment,
        checkpoint=backup.checkpoint if planned.marks else "",
        since=parent.checkpoint if parent else "",
        parent=backup.parent,
        forget=checkpoints_of(backup.target) if planned.marks else "",
        tpm=backup.tpm_volume if vm.spec.tpm else "",
        uuid=vm.domain_uuid if vm.spec.tpm else "",
    )
