"""Backups on schedule: which VMs are due on which target, and which backups are let go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from vgpumgr.engine.backups import backup_removal, vm_backups
from vgpumgr.engine.backups.vm_backups import PlannedBackup
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import VmOutcome
from vgpumgr.model.errors import LedgerError, NotFound, StaleGeneration, VgpumgrError
from vgpumgr.model.operation import TaskState
from vgpumgr.model.vm import VmRecord, VmState
from vgpumgr.model.vm_backup import BackupState, BackupTarget, VmBackup, damaged, expired

MOST_AT_ONCE = 8
"""How many VMs are backed up side by side, one on a host."""
_KEPT_STATES = frozenset({VmState.ACTIVE, VmState.SHELVED})

Ready = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupCycleReport:
    """What one cycle did: ends of backups, backups that were deleted, and why others could not be
    made or deleted, by the key under which they are tried again (``vault/web``). ``well`` are the
    keys of what was made or deleted.
    """

    ended: tuple[VmOutcome, ...] = ()
    deleted: tuple[VmBackup, ...] = ()
    failed: dict[str, VgpumgrError] = field(default_factory=dict)
    well: frozenset[str] = frozenset()

    @property
    def any(self) -> bool:
        """Was anything done?"""
        return bool(self.ended or self.deleted)


def key(target: str, vm: str) -> str:
    """What is tried again after a pause."""
    return f"{target}/{vm}"


def due(
    target: BackupTarget,
    vms: Iterable[VmRecord],
    backups: Iterable[VmBackup],
    now: float,
) -> tuple[VmRecord, ...]:
    """The VMs whose newest backup there without a fault, in it or in what it is laid over, is older
    than the target says, those first that are due longest. One from the future counts for nothing.
    """
    newest: dict[str, float] = {}
    unsound = damaged(known := tuple(backups))
    for each in known:
        used = each.state in {BackupState.MAKING, BackupState.THERE} and each.id not in unsound
        if used and each.target == target.name and each.created_at <= now:
            newest[each.vm_id] = max(newest.get(each.vm_id, 0.0), each.created_at)
    found = [
        vm
        for vm in vms
        if (every_s := target.every(vm.name, vm.spec.backup)) is not None
        and vm.state in _KEPT_STATES
        and vm.spec.disks
        and not vm.definition
        and now - newest.get(vm.id, 0.0) >= every_s
    ]
    return tuple(sorted(found, key=lambda vm: (newest.get(vm.id, 0.0), vm.name)))


def one_per_host(vms: Iterable[VmRecord], most: int = MOST_AT_ONCE) -> Iterator[VmRecord]:
    """The first of each host, ``most`` of them."""
    hosts: set[str] = set()
    for vm in vms:
        if vm.host not in hosts and len(hosts) < most:
            hosts.add(vm.host)
            yield vm


def step(context: EngineContext, ready: Ready) -> BackupCycleReport:
    """Back up what is due, a few VMs of each target; then delete what their rules let go. A fleet
    has many backups: all are read once for each of the two.
    """
    targets = context.ledger.backup_targets()
    own = {vm.id: vm.spec.backup for vm in context.ledger.vms() if vm.spec.backup}
    named = {each.target for each in own.values()}
    report = BackupCycleReport(failed=_unknown(context, targets, ready))
    scheduled = [each for each in targets if each.every_s is not None or each.name in named]
    kept = [each for each in targets if not each.keep.keeps_all or each.name in named]
    for each_step, those in ((_back_up, scheduled), (_let_go, kept)):
        backups = context.ledger.vm_backups() if those else ()
        for target in those:
            if not context.stop.is_set():
                report = _both(report, each_step(context, target, backups, ready))
    return report


def works(context: EngineContext) -> bool:
    """Is there a schedule, or a rule by which backups are let go? Without a target there is none:
    then no VM's file is read.
    """
    targets = context.ledger.backup_targets()
    of_targets = any(each.every_s is not None or not each.keep.keeps_all for each in targets)
    return of_targets or (bool(targets) and any(vm.spec.backup for vm in context.ledger.vms()))


def _unknown(
    context: EngineContext, targets: Iterable[BackupTarget], ready: Ready
) -> dict[str, VgpumgrError]:
    """Why VMs are not backed up whose files name a target that is not there."""
    names = {each.name for each in targets}
    return {
        what: NotFound(
            f"{vm.name} is not backed up: there is no backup target {own.target}",
            why=f"its file names it; there are: {', '.join(sorted(names)) or 'none'}",
            next=f"vgpumgr backup target create {own.target} --pool POOL",
        )
        for vm in context.ledger.vms()
        if (own := vm.spec.backup) is not None
        and own.target not in names
        and ready(what := key(own.target, vm.name))
    }


def _both(one: BackupCycleReport, other: BackupCycleReport) -> BackupCycleReport:
    return BackupCycleReport(
        ended=(*one.ended, *other.ended),
        deleted=(*one.deleted, *other.deleted),
        failed={**one.failed, **other.failed},
        well=one.well | other.well,
    )


def _back_up(
    context: EngineContext, target: BackupTarget, backups: Sequence[VmBackup], ready: Ready
) -> BackupCycleReport:
    ledger = context.ledger
    desktops = {each.name for each in ledger.desktops()}
    waiting = due(target, ledger.vms(), backups, context.clock.now())
    mine = [vm for vm in waiting if vm.name not in desktops and ready(key(target.name, vm.name))]
    planned: list[PlannedBackup] = []
    failed: dict[str, VgpumgrError] = {}
    for vm in one_per_host(mine):
        try:
            planned.append(vm_backups.plan(context, vm.name, target))
        except LedgerError:
            raise
        except VgpumgrError as error:
            failed[key(target.name, vm.name)] = error
    if not planned:
        return BackupCycleReport(failed=failed)
    start = vm_backups.reservation(
        planned, target, context.view(), context.opening(), scheduled=True
    )
    try:
        outcome = operation_lifecycle.begin(context, start)
    except StaleGeneration:
        return BackupCycleReport(failed=failed)  # the next cycle plans again
    well = set()
    for each in outcome.vms:
        if each.state is TaskState.DONE:
            well.add(key(target.name, each.vm))
        elif each.error is not None:
            failed[key(target.name, each.vm)] = each.error
    return BackupCycleReport(ended=outcome.vms, failed=failed, well=frozenset(well))


def _let_go(
    context: EngineContext, target: BackupTarget, backups: Sequence[VmBackup], ready: Ready
) -> BackupCycleReport:
    by_vm: dict[str, list[VmBackup]] = {}
    own = {vm.id: vm.spec.backup for vm in context.ledger.vms()}
    for each in backups:
        if each.target == target.name:
            by_vm.setdefault(each.vm_id, []).append(each)
    deleted: list[VmBackup] = []
    failed: dict[str, VgpumgrError] = {}
    for vm_id, mine in by_vm.items():
        for each in expired(mine, target.keeps(own.get(vm_id))):
            what = key(target.name, each.id)
            if context.stop.is_set() or not ready(what):
                continue
            try:
                backup_removal.delete(context, each).raise_for_failure()
                deleted.append(each)
            except LedgerError:
                raise
            except VgpumgrError as error:
                failed[what] = error
    well = frozenset(key(target.name, each.id) for each in deleted)
    return BackupCycleReport(deleted=tuple(deleted), failed=failed, well=well)
