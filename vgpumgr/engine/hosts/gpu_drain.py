"""The drain of one GPU: the VMs that hold parts of it are moved to other hosts, one at a time."""

from __future__ import annotations

from vgpumgr.engine.hosts import host_drain
from vgpumgr.engine.hosts.host_drain import DrainReport, DrainRequest
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.vm import VmRecord


def holders(context: EngineContext, gpu: GpuRecord) -> tuple[VmRecord, ...]:
    """The VMs that hold parts of the GPU, by name."""
    held = {each.vm_id for each in context.ledger.allocations() if each.gpu == gpu.id}
    return tuple(vm for vm in context.ledger.vms(gpu.host) if vm.id in held)


def step(context: EngineContext, gpu: GpuRecord, *, cold: bool) -> DrainReport:
    """Move the next VM that can be moved now; with ``cold`` those are stopped for it that cannot
    move while they run. No user's session is cut off.

    The other hosts are taken as last observed, except the target.
    """
    wanted = DrainRequest(host=gpu.host, cold=cold)
    outcome = host_drain.finish_moves(context, gpu.host)
    staying = []
    for vm in holders(context, gpu):
        if context.stop.is_set() or outcome.done:
            break
        if vm.name in outcome.waiting:
            continue
        choice, moved = host_drain.leave_for_any(context, vm, wanted)
        outcome = outcome.then(moved)
        if choice.move is None:
            staying.append(choice)
    return DrainReport(host=gpu.host, outcome=outcome, staying=tuple(staying))
