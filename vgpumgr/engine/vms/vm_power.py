"""VMs started, on another GPU of the host where theirs cannot hold them, stopped and rebooted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration.moves_within_host import move_within_host
from vgpumgr.engine.migration.user_messages import tell_now
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import (
    refuse_resting,
    refuse_shelved,
)
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.reservation import vm_reservations
from vgpumgr.engine.reservation.vm_reservations import (
    lost_partitions,
    require_partitioned,
    require_whole,
)
from vgpumgr.engine.vms.vm_shelving import finish, unshelve
from vgpumgr.model.errors import Conflict, NoPlacement
from vgpumgr.model.gpu import GpuHealth, GpuRecord, GpuState
from vgpumgr.model.vm import VmRecord, VmState


def place_on_other_gpus(
    context: EngineContext, view: LedgerView, vms: Sequence[VmRecord]
) -> Outcome:
    """VMs that are off and do not get back their former parts get other GPUs of their host, where
    there is capacity; the others are refused, or tried in their places, as before.
    """
    outcome, running = Outcome(), observed_domains(view).running
    off = [vm for vm in vms if (vm.host, vm.name) not in running]
    for name, why in displaced(view, off).items():
        try:
            moved = move_within_host(context, name)
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


def displaced(view: LedgerView, vms: Collection[VmRecord]) -> dict[str, str]:
    """VMs (by name) that do not get back what they had of their GPUs, and why: it was given back,
    the GPU is quarantined or ill, or not partitioned as it was. What could not be read says
    nothing.
    """
    known = {gpu.id: gpu for gpu in view.gpus}
    held: dict[str, list[str]] = {}
    for each in view.allocations:
        held.setdefault(each.vm_id, []).append(each.gpu)
    unmet = {usage.vm for _, usage, _ in lost_partitions(view, [vm.name for vm in vms])}
    found = {}
    for vm in vms:
        mine = held.get(vm.id, [])
        broken = (_broken(known[id_]) for id_ in mine if id_ in known)
        why = next(filter(None, broken), "")
        if len(mine) < sum(each.count for each in vm.spec.gpus):
            why = "its GPU parts were released"
        elif not why and vm.name in unmet:
            why = "its GPU is not partitioned as it was"
        if why:
            found[vm.name] = why
    return found


def _broken(gpu: GpuRecord) -> str:
    name = f"{gpu.facts.model} {gpu.facts.device}"
    if gpu.state is GpuState.QUARANTINED:
        return ": ".join(filter(None, [f"{name} is quarantined", gpu.state_why]))
    if gpu.facts.health is GpuHealth.LOST:
        return f"{name} fell off the bus"
    if gpu.facts.unfit:
        return f"{name} is {gpu.facts.health}"
    return "" if gpu.health.state.takes_vms else f"{name} is {gpu.health.state}: {gpu.health.why}"


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
    tells_users: bool = False,
) -> Outcome:
    """``start``, ``stop`` or ``reboot``; with ``force`` the guest is not asked. ``tells_users``:
    users who are cut off are told in their guests, once nothing refuses it.
    """
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
    if tells_users:
        tell_now(context, names)
    return operation_lifecycle.begin(context, start)
