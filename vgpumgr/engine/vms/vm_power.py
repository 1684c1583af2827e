"""VMs started, stopped and rebooted."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.inventory.ledger_view import observed_domains
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import (
    refuse_resting,
    refuse_shelved,
)
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.reservation import vm_reservations
from vgpumgr.engine.reservation.vm_reservations import require_partitioned, require_whole
from vgpumgr.engine.vms.start_on_another_gpu import place_on_other_gpus
from vgpumgr.engine.vms.vm_shelving import finish, unshelve
from vgpumgr.model.vm import VmState


def start(context: EngineContext, names: Sequence[str]) -> Outcome:
    """Start VMs, their devices and whatever else their hosts lost first; shelved VMs are placed
    anew.
    """
    before = finish(context, names)
    context.refresh({context.ledger.vm(name).host for name in names})
    view, vms = context.view(), [context.ledger.vm(name) for name in names]
    shelved = [vm for vm in vms if vm.state is VmState.SHELVED]
    holding = [vm for vm in vms if vm.state is not VmState.SHELVED]
    before = before.then(place_on_other_gpus(context, view, holding))
    view = context.view()
    require_whole(view, holding)
    require_partitioned(view, [vm.name for vm in holding])
    if shelved:
        operation_lifecycle.refuse_unfinished(context.ledger, vms)
        before = before.then(unshelve(context, shelved))
    rest = [vm.name for vm in holding if vm.name not in before.waiting]
    return before.then(power(context, rest, "start")) if rest else before


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
    operation_lifecycle.refuse_unfinished(context.ledger, vms)
    if verb != "stop":
        refuse_shelved(vms)
    view = context.view()
    if verb != "stop":
        refuse_resting(((vm.name, vm.host) for vm in vms), observed_domains(view).resting)
    start = vm_reservations.power_reservation(
        vms, view, context.opening(), verb=verb, force=force, timeout_s=timeout_s
    )
    return operation_lifecycle.begin(context, start)
