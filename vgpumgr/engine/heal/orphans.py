"""Orphans: VMs of which nothing is left, whose units are released after two looks that agree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from vgpumgr.engine.heal.remedy import DriftCase, HealPlan, Remedy, RemedyWay
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.steps.repair_steps import ConfirmGone
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.drift import DriftKind


def is_orphan(case: DriftCase) -> bool:
    """Is nothing of its VM on its host, and can it not be brought back there?

    No domain, and of all that it holds no device and no claim; its disks are gone with them, or
    its domain is on another host.
    """
    kinds, held = {each.kind for each in case.others}, case.held
    missing = DriftKind.DOMAIN_MISSING
    gone = any(each.kind is missing and each.found == "missing" for each in case.others)
    lost = bool(held) and all(case.lost(each) for each in held)
    return gone and lost and bool(kinds & {DriftKind.DOMAIN_ELSEWHERE, DriftKind.VOLUME_MISSING})


def release(case: DriftCase) -> Remedy:
    """The units are free for others after a second look; the VM itself stays in the ledger."""
    vm, held = case.vm, case.held
    step = ConfirmGone(name=vm.name, vm_id=vm.id, allocations=held)
    count = sum(len(each.slots) for each in held)
    return Remedy(
        drift=case.drift,
        way=RemedyWay.RELEASE,
        text=f"nothing of {vm.name} is left on {vm.host}: after a second check, free {count} slots",
        steps=(step,),
        whose=case.whose,
    )


PlanAndView = tuple[HealPlan, LedgerView]

# Between the two looks that must agree before units are given back.
SECOND_LOOK_S = 5.0


def second_look(
    context: EngineContext, orphans: Sequence[Remedy], plan: Callable[[], PlanAndView]
) -> tuple[list[Remedy], LedgerView]:
    """Mark, wait, look by ``plan``: what a second look does not find as it was is no orphan."""
    vms = {each.drift.vm for each in orphans}
    _mark(context, vms, AllocationState.ORPHANED)
    context.tell(f"checking again in {SECOND_LOOK_S:g} s: {', '.join(sorted(vms))}")
    context.clock.wait(SECOND_LOOK_S)
    again, view = plan()
    agreed = [
        each for each in again.to_do if each.way is RemedyWay.RELEASE and each.drift.vm in vms
    ]
    if other := vms - {each.drift.vm for each in agreed}:
        _mark(context, other, AllocationState.ACTIVE)
    return agreed, view


def _mark(context: EngineContext, vms: Collection[str], state: AllocationState) -> None:
    held = [each.id for each in context.ledger.allocations() if each.vm in vms]
    context.ledger.mark(held, state)
