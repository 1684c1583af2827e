"""VMs deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpumgr.engine.inventory.ledger_view import observed_domains
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.planning.vm_plan import MOST_NAMED
from vgpumgr.engine.reservation import vm_reservations
from vgpumgr.engine.vms.vm_snapshots import refuse_cloned
from vgpumgr.model.errors import HostUnreachable, StillRunning
from vgpumgr.model.vm import VmRecord, VmState


def delete(
    context: EngineContext, names: Sequence[str], *, keep_disks: bool, force: bool
) -> Outcome:
    """Delete VMs. A running one needs ``force``; an interrupted deletion goes on.

    A creation that never ended is undone: its VM was never there to be deleted.
    """
    wanted = {name: context.ledger.vm(name).spec for name in names}
    before = operation_lifecycle.finish_leftovers(context, wanted, {"delete"})
    if not force:
        _refuse_running(context, _alive(context, wanted))
    half_made = {vm.name for vm in _alive(context, wanted) if vm.state is VmState.RESERVED}
    operation_lifecycle.undo_unfinished(context, half_made)
    vms = _alive(context, wanted)
    operation_lifecycle.refuse_unfinished(context.ledger, vms)

    def attempt() -> Outcome:
        view = context.view()
        if not keep_disks:
            staying = [each for each in view.vms if each.name not in wanted]
            refuse_cloned([(vm, vm.snapshots.volumes) for vm in vms], staying)
        start = vm_reservations.delete_reservation(
            vms, view, context.opening(), keep_disks=keep_disks
        )
        return operation_lifecycle.begin(context, start)

    return before.then(operation_lifecycle.until_current(attempt))


def _alive(context: EngineContext, names: Collection[str]) -> list[VmRecord]:
    """The VMs of these names, in their order, that are not on their way out."""
    found = {vm.name: vm for vm in context.ledger.vms() if vm.state is not VmState.DELETING}
    return [found[name] for name in names if name in found]


def _refuse_running(context: EngineContext, vms: Sequence[VmRecord]) -> None:
    """Conflict when a VM runs, or may run: deleting it needs ``--force``."""
    if not vms:
        return
    context.refresh({vm.host for vm in vms})
    seen = observed_domains(context.view())
    for vm in vms:
        if vm.host not in seen.hosts:
            raise HostUnreachable(
                f"cannot tell whether {vm.name} runs",
                why=f"host {vm.host} did not answer",
                next=f"vgpumgr host probe {vm.host}, or delete with --force",
            )
    names = [vm.name for vm in vms if (vm.host, vm.name) in seen.running]
    if names:
        said = " ".join(names) if len(names) <= MOST_NAMED else "NAME …"
        stop = f"vgpumgr vm stop {said}"
        raise StillRunning(
            f"still running: {', '.join(names[:MOST_NAMED])}"
            f"{f' and {len(names) - MOST_NAMED} more' if len(names) > MOST_NAMED else ''}",
            next=f"vgpumgr vm delete {said} --force   (powers them off), or first {stop}",
        )
