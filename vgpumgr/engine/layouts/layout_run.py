"""`layout apply`: GPUs partitioned as layouts declare."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from vgpumgr.engine.desktops.user_sessions import named
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.layouts import layout_goals, layout_plan
from vgpumgr.engine.migration.users_at_work import users_on
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.model.errors import Conflict
from vgpumgr.model.layout import LayoutPlan, LayoutSpec


def plan(
    context: EngineContext, specs: Sequence[LayoutSpec] | None
) -> tuple[LayoutPlan, LedgerView]:
    """Probe the hosts that they are for, then say what applying them would do, with the reading it
    was made from.
    """
    needed = layout_goals.hosts_meant(context.view(), specs)
    warnings = context.refresh_all(needed) if needed else ()
    view = context.view()
    return layout_plan.plan(view, specs, warnings), view


def apply(context: EngineContext, specs: Sequence[LayoutSpec] | None) -> tuple[LayoutPlan, Outcome]:
    """Plan, refuse what stands in a guest's way (Conflict), execute, and look again.

    An interrupted earlier change is superseded: a plan is made from any half-way state, and has in
    it what the cut one was to bring back.
    """

    def attempt() -> tuple[LayoutPlan, Outcome]:
        wanted, view = plan(context, specs)
        _refuse(context, wanted)
        operation_lifecycle.close_layouts(
            context.ledger, layout_goals.target_gpus(view, specs), context.clock.now()
        )
        start = layout_plan.reservation(wanted, view, specs, context.opening())
        return wanted, operation_lifecycle.begin(context, start)

    wanted, outcome = until_current(attempt)
    context.refresh({change.host for change in wanted.gpus})
    left = layout_plan.plan(context.view(), specs).gpus
    return wanted, outcome.less({(gpu.host, layout_plan.named(gpu)): gpu for gpu in left})


def _refuse(context: EngineContext, wanted: LayoutPlan) -> None:
    """Conflict that names the VMs in the way, and the users at work on them."""
    try:
        layout_plan.refuse(wanted)
    except Conflict as error:
        words = (each.split() for change in wanted.gpus for each in change.holders)
        if users := users_on(context, frozenset(chain.from_iterable(words))):
            error.why = f"{error.why}; at work: {named(users)}"
        raise


def export(context: EngineContext, hosts: Sequence[str]) -> tuple[LayoutSpec, ...]:
    """Probe, then write down how GPUs are partitioned."""
    context.refresh(hosts)
    return layout_goals.export(context.view(), hosts)
