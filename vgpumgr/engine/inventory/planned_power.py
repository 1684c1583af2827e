"""What is planned under each power budget, and the GPUs for which nothing is left. Pure.

Planned are the hosts without their GPUs, and of each GPU that a VM holds the limit that it may
have: a cap of the controller counts for nothing, for it is lifted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from vgpumgr import catalog
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.power import PowerBudget
from vgpumgr.power.budget_tree import BudgetTree, tree_of


def full_watts(gpu: GpuRecord, layout: LayoutRecord | None, *, capped: bool) -> int | None:
    """The limit of a GPU when the controller holds it not: enforced, or declared by its layout;
    the board's power where no driver tells. None for a board of which nothing is known.
    """
    power, declared = gpu.facts.power, layout.goal.power_limit if layout is not None else None
    if power is None:
        return catalog.board_watts(gpu.facts.model)
    return (declared or power.default_w) if capped else power.limit_w


class PlannedPower:
    """The plan over one reading of the ledger; more GPUs may be added to it."""

    def __init__(self, view: LedgerView) -> None:
        self.tree: BudgetTree = tree_of(tuple(view.budgets), view.hosts)
        layouts = {each.gpu: each for each in view.layouts}
        capped = {each.gpu for each in view.caps}
        self._gpus = {each.id: each for each in view.gpus}
        self._watts = {
            each.id: full_watts(each, layouts.get(each.id), capped=each.id in capped)
            for each in view.gpus
        }
        open_ = (each for each in view.allocations if each.state is not AllocationState.RELEASED)
        self.used = {each.gpu for each in open_ if each.gpu in self._gpus}

    def watts(self, gpu: str) -> int:
        """What a GPU may draw; 0 where nothing is known of its board."""
        return self._watts.get(gpu) or 0

    @cached_property
    def _of_budget(self) -> dict[str, int]:
        found = {}
        for budget in self.tree.budgets:
            hosts = self.tree.hosts[budget.name]
            gpus = sum(self.watts(each) for each in self.used if self._gpus[each].host in hosts)
            found[budget.name] = gpus + sum(map(self.tree.host_watts, hosts))
        return found

    def planned(self, budget: str) -> int:
        """What is planned under a budget, in watts."""
        return self._of_budget[budget]

    def exceeded(self, gpus: Iterable[str]) -> tuple[PowerBudget, int] | None:
        """The first budget that these GPUs more would exceed, and what they add to it."""
        more: dict[str, int] = {}
        for gpu in set(gpus) - self.used:
            record = self._gpus.get(gpu)
            for budget in self.tree.of_host.get(record.host, ()) if record is not None else ():
                more[budget.name] = more.get(budget.name, 0) + self.watts(gpu)
        for name, watts in more.items():
            if watts and self.planned(name) + watts > self.tree.by_name[name].watts:
                return self.tree.by_name[name], watts
        return None

    def add(self, gpus: Iterable[str]) -> None:
        """From now on these are in use."""
        for gpu in set(gpus) - self.used:
            record = self._gpus.get(gpu)
            for budget in self.tree.of_host.get(record.host, ()) if record is not None else ():
                self._of_budget[budget.name] += self.watts(gpu)
            self.used.add(gpu)

    def refusal(self, budget: PowerBudget, watts: int) -> str:
        """``power budget pdu-1 has 120 of its 4000 W left, and 300 W more are needed``."""
        left = max(0, budget.watts - self.planned(budget.name))
        return (
            f"power budget {budget.name} has {left} of its {budget.watts} W left, "
            f"and {watts} W more are needed"
        )


def without_power(view: LedgerView) -> Mapping[str, str]:
    """Unused GPUs (our ids) for which a budget has not enough left, and why."""
    if not view.budgets:
        return {}
    plan, found = PlannedPower(view), {}
    for gpu in view.gpus:
        exceeded = plan.exceeded([gpu.id]) if gpu.id not in plan.used else None
        if exceeded is not None:
            found[gpu.id] = plan.refusal(*exceeded)
    return found
