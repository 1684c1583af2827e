"""What GPUs under power budgets draw, by the newest figures and the ledger. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.inventory.planned_power import PlannedPower
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.gpu_figures import Figures
from vgpumgr.model.host_sample import FleetSample
from vgpumgr.model.power import MeterReading, PowerClass
from vgpumgr.model.vm import VmRecord
from vgpumgr.power.power_bands import BudgetLoad, GpuLoad

_MILLI = 1000
_NONSENSE = 2.0


def figures_of(view: LedgerView, sample: FleetSample) -> dict[str, Figures]:
    """The newest figures by GPU (our id); a GPU of which nothing was told is not in it."""
    told = {
        (host.host, gpu.address): gpu.figures
        for host in sample.hosts
        for gpu in (host.figures.gpus if host.figures is not None else ())
        if gpu.figures
    }
    places = {gpu.id: (gpu.host, gpu.facts.device) for gpu in view.gpus}
    return {gpu: told[place] for gpu, place in places.items() if place in told}


def classes(view: LedgerView, desktops: Iterable[DesktopRecord]) -> dict[str, PowerClass]:
    """For whom each GPU works: the most precious of what it carries."""
    vms = {vm.id: vm for vm in view.vms}
    booked = {
        row.vm_id
        for row in desktops
        if row.vm_id and row.desktop.session is not None and row.desktop.session.booking
    }
    found: dict[str, PowerClass] = {}
    for held in view.allocations:
        vm = vms.get(held.vm_id)
        if held.state is AllocationState.RELEASED or vm is None:
            continue
        kind = _kind(vm, booked)
        known = found.get(held.gpu, PowerClass.IDLE)
        found[held.gpu] = max(kind, known, key=lambda each: each.rank)
    return found


def _kind(vm: VmRecord, booked: Collection[str]) -> PowerClass:
    if vm.spec.queue is not None and vm.spec.queue.spot:
        return PowerClass.SPOT
    return PowerClass.RESERVED if vm.id in booked else PowerClass.ON_DEMAND


def gpu_loads(
    view: LedgerView,
    plan: PlannedPower,
    figures: Mapping[str, Figures],
    kinds: Mapping[str, PowerClass],
) -> list[GpuLoad]:
    """Every GPU under a budget. One in use that tells nothing counts with all that it may draw (a
    cap may be lost by now), and cannot be capped.
    """
    there = (gpu for gpu in view.gpus if gpu.state is not GpuState.MISSING)
    return [
        _load(
            gpu,
            figures.get(gpu.id, {}),
            kinds.get(gpu.id, PowerClass.IDLE),
            full=plan.watts(gpu.id),
            used=gpu.id in plan.used,
        )
        for gpu in there
        if gpu.host in plan.tree.of_host
    ]


def _load(
    gpu: GpuRecord,
    figures: Figures,
    kind: PowerClass,
    *,
    full: int,
    used: bool,
) -> GpuLoad:
    power, drawn = gpu.facts.power, figures.get("power_mw")
    if drawn is not None:
        watts = drawn / _MILLI
    else:
        watts = float(full if used else 0)
    clock = figures.get("clock_sm_mhz")
    return GpuLoad(
        id=gpu.id,
        kind=kind,
        watts=watts,
        least_w=power.least_w if power is not None else full,
        most_w=max(full, power.least_w) if power is not None else full,
        clock_mhz=clock or None,
        cappable=power is not None and drawn is not None,
    )


def budget_loads(
    plan: PlannedPower,
    loads: Iterable[GpuLoad],
    view: LedgerView,
    meters: Iterable[MeterReading] = (),
) -> list[BudgetLoad]:
    """The budgets, leaves first, with their GPUs. Where a meter reads more than GPUs and hosts come
    to, the rest counts as the hosts'.
    """
    loads = list(loads)
    drawn = {each.id: each.watts for each in loads}
    metered = {each.budget: each.watts for each in meters if each.watts is not None}
    hosts = {gpu.id: gpu.host for gpu in view.gpus}
    by_host: dict[str, list[str]] = {}
    for load in loads:
        by_host.setdefault(hosts[load.id], []).append(load.id)
    found = [
        BudgetLoad(
            name=budget.name,
            watts=float(budget.watts),
            base_w=float(sum(map(plan.tree.host_watts, plan.tree.hosts[budget.name]))),
            gpus=tuple(
                gpu
                for host in sorted(plan.tree.hosts[budget.name])
                for gpu in by_host.get(host, ())
            ),
        )
        for budget in plan.tree.budgets
    ]
    return [_with_meter(each, metered.get(each.name), drawn) for each in found]


def _with_meter(budget: BudgetLoad, watts: float | None, drawn: Mapping[str, float]) -> BudgetLoad:
    """A meter that reads twice the budget tells nonsense: its breaker would have tripped."""
    if watts is None or watts > _NONSENSE * budget.watts:
        return budget
    rest = watts - sum(drawn[gpu] for gpu in budget.gpus)
    return replace(budget, base_w=max(budget.base_w, rest))
