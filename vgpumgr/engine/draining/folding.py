"""A view as it will be once a planned move is done: what the next choice starts from. Pure."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine import migration
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.view import LedgerView


def after(view: LedgerView, plan: migration.MovePlan, opening: Opening) -> LedgerView:
    """The VM on its target, and what it takes there, beside what it holds now."""
    start = migration.reservation(plan, view, opening)
    changed = {vm.id: vm for vm in start.changed_vms}
    return replace(
        view,
        vms=tuple(changed.get(vm.id, vm) for vm in view.vms),
        allocations=(*view.allocations, *start.allocations),
    )
