"""Explanations of VMs, placed, refused or queued, by the planner of `apply` and by the queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpumgr.engine.capacity.refusal_explanation import (
    last_explanation,
    plan_explanations,
    queue_explanation,
)
from vgpumgr.engine.desktops.booked_capacity import place_beside_bookings
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.planning.vm_plan import make_plan
from vgpumgr.engine.queue.queue_cycle import forecast
from vgpumgr.engine.vms.vm_apply import require_afters
from vgpumgr.model.placement import Explanation
from vgpumgr.model.queue import QueueState
from vgpumgr.model.vm import VmSpec


def explain(
    context: EngineContext, desired: Sequence[VmSpec], names: Collection[str] = ()
) -> tuple[Explanation, ...]:
    """The explanations of these VMs (or of ``names``), by the last observation."""
    require_afters(context, desired)
    place = place_beside_bookings(context.place, context.ledger, context.clock.now())
    view = context.view()
    planned = make_plan(view, desired, place)
    found = {each.vm: each for each in plan_explanations(view, planned, names)}
    waits = [each.vm.name for each in planned.waiting if not each.new and each.vm.name in found]
    if waits:  # serve decides about these, not this file
        turn = forecast(context)
        found |= {name: queue_explanation(view, turn, name) for name in waits}
    return tuple(found[spec.name] for spec in desired if spec.name in found)


def explain_one(context: EngineContext, name: str) -> Explanation:
    """Why a VM waits in the queue; of any other, what was said when it was asked for last."""
    waiting = (each for each in context.ledger.queue([name]) if each.name == name)
    if any(each.state is QueueState.WAITING for each in waiting):
        return queue_explanation(context.view(), forecast(context), name)
    return last_explanation(context.ledger, name)
