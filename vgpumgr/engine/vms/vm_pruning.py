"""`apply --prune`: VMs that a file has no longer are deleted, the unused ones first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpumgr.engine.migration.users_at_work import logged_in, refuse_cut_off
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.vms import vm_deletion
from vgpumgr.model.vm import VmRecord


@dataclass(frozen=True, slots=True)
class Pruning:
    """The surplus VMs, by name, that `apply` may delete, and whether their disks are kept."""

    names: tuple[str, ...] = ()
    keep_disks: bool = False


NOTHING_PRUNED = Pruning()


def surplus_vms(context: EngineContext, names: Sequence[str]) -> list[VmRecord]:
    """The VMs of these names, as far as there are any."""
    wanted = set(names)
    return [vm for vm in context.ledger.vms() if vm.name in wanted]


def refuse_users_of(context: EngineContext, pruning: Pruning) -> None:
    """UsersAtWork where one of them has users."""
    again = "vgpumgr apply -f FILE --prune --with-users"
    vms = surplus_vms(context, pruning.names)
    refuse_cut_off(context, vms, next=f"wait until they have logged off, or {again}")


def prune(context: EngineContext, pruning: Pruning) -> Outcome:
    """Delete them: what is off first, then what has no users; of these the last replica first."""
    vms = surplus_vms(context, pruning.names)
    if not vms:
        return Outcome()
    used = logged_in(context, [vm for vm in vms if vm.running and vm.spec.agent])
    by_number = sorted(vms, key=lambda vm: (len(vm.name), vm.name), reverse=True)
    by_number.sort(key=lambda vm: (vm.running, used.get(vm.name, 0)))
    names = [vm.name for vm in by_number]
    return vm_deletion.delete(context, names, keep_disks=pruning.keep_disks, force=True)
