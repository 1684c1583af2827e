"""A start on another GPU of the host, where a VM's former GPU parts cannot be had again."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration.moves_within_host import move_within_host
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.reservation.lost_gpu_parts import displaced
from vgpumgr.model.errors import Conflict, NoPlacement
from vgpumgr.model.vm import VmRecord


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
