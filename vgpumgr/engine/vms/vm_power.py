"""VMs started, stopped, rebooted and deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.migration.local_moves import reseat
from vgpumgr.engine.operations import operation_lifecycle, unfinished
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.planning.spec_changes import MOST_NAMED, refuse_resting
from vgpumgr.engine.planning.vm_plan import reached
from vgpumgr.engine.reservation import vm_reservations
from vgpumgr.engine.reservation.lost_partitions import displaced, require_partitioned, require_whole
from vgpumgr.engine.reservation.shelf_reservations import refuse_shelved
from vgpumgr.engine.vms.vm_shelf import finish, unshelve
from vgpumgr.model.errors import Conflict, HostUnreachable, NoPlacement, StillRunning
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
    operation_lifecycle.take_back(context, half_made)
    vms = _alive(context, wanted)
    unfinished.refuse_unfinished(context.ledger, vms)
    start = vm_reservations.deletion(vms, context.view(), context.opening(), keep_disks=keep_disks)
    return before.then(operation_lifecycle.begin(context, start))


def _alive(context: EngineContext, names: Collection[str]) -> list[VmRecord]:
    """The VMs of these names that are not on their way out."""
    found = [vm for vm in context.ledger.vms() if vm.name in names]
    return [vm for vm in found if vm.state is not VmState.DELETING]


def _refuse_running(context: EngineContext, vms: Sequence[VmRecord]) -> None:
    """Conflict when a VM runs, or nobody can tell: deleting it needs ``--force``."""
    if not vms:
        return
    context.refresh({vm.host for vm in vms})
    seen = reached(context.view())
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
            stop=stop,
            next=f"vgpumgr vm delete {said} --force   (powers them off), or first {stop}",
        )


def start(context: EngineContext, names: Sequence[str]) -> Outcome:
    """Start VMs, their devices first, and what else their hosts lost; shelved ones take anew what
    they need.
    """
    before = finish(context, names)
    context.refresh({context.ledger.vm(name).host for name in names})
    view, vms = context.view(), [context.ledger.vm(name) for name in names]
    shelved = [vm for vm in vms if vm.state is VmState.SHELVED]
    holding = [vm for vm in vms if vm.state is not VmState.SHELVED]
    before = before.then(_place_anew(context, view, holding))
    view = context.view()
    require_whole(view, holding)
    require_partitioned(view, [vm.name for vm in holding])
    if shelved:
        unfinished.refuse_unfinished(context.ledger, vms)
        before = before.then(unshelve(context, shelved))
    rest = [vm.name for vm in holding if vm.name not in before.waiting]
    return before.then(power(context, rest, "start")) if rest else before


def _place_anew(context: EngineContext, view: LedgerView, vms: Sequence[VmRecord]) -> Outcome:
    """VMs that are off and do not get back what they had get other GPUs of their host, where there
    is room; the others are refused, or tried where they are, as before.
    """
    outcome, running = Outcome(), reached(view).running
    off = [vm for vm in vms if (vm.host, vm.name) not in running]
    for name, why in displaced(view, off).items():
        try:
            moved = reseat(context, name)
        except (Conflict, NoPlacement):
            continue
        moved.raise_for_failure()
        outcome = outcome.then(moved)
        context.tell(f"{name}: {why}; it is placed again: {_where(context, name)}")
    return outcome


def _where(context: EngineContext, name: str) -> str:
    view = context.view()
    known = {gpu.id: gpu.facts for gpu in view.gpus}
    mine = [each for each in view.allocations if each.vm == name]
    return ", ".join(
        f"{each.profile} on {known[each.gpu].model} {known[each.gpu].device} of {each.host}"
        for each in mine
    )


def power(
    context: EngineContext,
    names: Sequence[str],
    verb: str,
    *,
    force: bool = False,
    timeout_s: float = 60.0,
) -> Outcome:
    """``start``, ``stop`` or ``reboot``; with ``force`` the guest is not asked."""
    vms = [context.ledger.vm(name) for name in names]
    unfinished.refuse_unfinished(context.ledger, vms)
    if verb != "stop":
        refuse_shelved(vms)
    view = context.view()
    if verb != "stop":
        refuse_resting(((vm.name, vm.host) for vm in vms), reached(view).resting)
    start = vm_reservations.power(
        vms, view, context.opening(), verb=verb, force=force, timeout_s=timeout_s
    )
    return operation_lifecycle.begin(context, start)
