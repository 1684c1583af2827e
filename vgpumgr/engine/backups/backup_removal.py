"""`backup delete`: a backup's manifest, and then its disks, deleted from the target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vgpumgr.engine.backups.backup_places import hosts_of
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.steps.volume_steps import DeleteReplaced
from vgpumgr.model.errors import Conflict, HostUnreachable, InUse, VgpumgrError
from vgpumgr.model.operation import DROP_BACKUP, OF_BACKUPS, Reservation
from vgpumgr.model.vm import VmRecord, VmState
from vgpumgr.model.vm_backup import BackupState, VmBackup


def delete(context: EngineContext, backup: VmBackup) -> Outcome:
    """Delete it, or finish that; one that all hosts of its pool were asked for and none has is
    forgotten, where a person asks for that. InUse while a VM is restored from it.
    """
    _finish_cut(context, backup)

    def attempt() -> Outcome:
        every = context.ledger.vm_backups(backup.vm_id)
        now = next((each for each in every if each.id == backup.id), None)
        if now is None:
            return Outcome()
        refuse_used(now, context.ledger.vms())
        _refuse_needed(now, every)
        host, volumes = _volumes(context, now)
        if not volumes and context.unasked:
            raise _not_seen(now)
        if not volumes:
            context.ledger.backup_lost(now.id)
            return Outcome()
        return operation_lifecycle.begin(context, _reservation(context, now, host, volumes))

    return until_current(attempt)


def _not_seen(backup: VmBackup) -> Conflict:
    return Conflict(
        f"nothing of backup {backup.id[:8]} of {backup.vm} is on its target",
        why=f"a folder that is not mounted looks like that, too: pool {backup.pool}",
        next=f"mount it; or, where it is gone for good, vgpumgr backup delete {backup.id[:8]}",
    )


def _finish_cut(context: EngineContext, backup: VmBackup) -> None:
    """A making that was cut is undone, a deletion finished."""
    if backup.state is BackupState.THERE:
        return
    for operation, waits in operation_lifecycle.unfinished_operations(
        context.ledger, {backup.vm}, OF_BACKUPS
    ):
        if waits and any(task.id == backup.task for task in context.ledger.tasks(operation.id)):
            if backup.state is BackupState.MAKING:
                operation_lifecycle.undo(context, operation.id)
            else:
                operation_lifecycle.resume(context, operation.id)


def refuse_used(backup: VmBackup, vms: tuple[VmRecord, ...]) -> None:
    """InUse while a VM that is not whole yet gets its disks from it."""
    users = [
        vm.name
        for vm in vms
        if vm.state is VmState.RESERVED
        and any(
            disk.restored is not None
            and disk.restored[0] == backup.pool
            and disk.restored[1].startswith(f"{backup.prefix}-")
            for disk in vm.spec.disks
        )
    ]
    if users:
        raise InUse(
            f"backup {backup.id[:8]} is in use",
            why=f"{', '.join(users)} is being restored from it",
            next="vgpumgr operation list --open",
        )


def _refuse_needed(backup: VmBackup, backups: Iterable[VmBackup]) -> None:
    """InUse while another backup is laid over it."""
    if over := [each.id[:8] for each in backups if each.parent == backup.id]:
        raise InUse(
            f"backup {backup.id[:8]} is needed",
            why=f"{', '.join(over)} holds what was written since, and is laid over it",
            next=f"vgpumgr backup delete {over[-1]}, then the same command",
        )


def _volumes(context: EngineContext, backup: VmBackup) -> tuple[str, tuple[str, ...]]:
    """A host that sees volumes of it, and these, the manifest first; none where there are none."""
    silent: list[str] = []
    asked = False
    for name in hosts_of(context.ledger.hosts(), backup):
        try:
            found = [each.name for each in context.host(name).storage.volumes(backup.pool)]
        except VgpumgrError as error:
            silent.append(f"{name}: {error.message}")
            continue
        asked = True
        disks = [each for each in found if each.startswith(f"{backup.prefix}-")]
        manifest = [each for each in found if each == backup.manifest]
        if manifest or disks:
            return name, (*manifest, *sorted(disks))
    if silent or not asked:
        raise HostUnreachable(
            f"backup {backup.id[:8]} of {backup.vm} cannot be deleted now",
            why="; ".join(silent) or f"no host has storage pool {backup.pool}",
            next="vgpumgr host list",
        )
    return "", ()


def _reservation(
    context: EngineContext, backup: VmBackup, host: str, volumes: tuple[str, ...]
) -> Reservation:
    opening = context.opening()
    operation = opening.operation("backup delete")
    steps = [DeleteReplaced(pool=backup.pool, name=each) for each in volumes]
    task = opening.task(operation, DROP_BACKUP, steps, vm_id=backup.vm_id, vm=backup.vm, host=host)
    leaving = replace(backup, state=BackupState.LEAVING, task=task.id)
    return Reservation(operation=operation, tasks=(task,), backups=(leaving,))
