"""The tree of power budgets over the hosts: whose host is whose, and what is planned. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.host import HostRecord
from vgpumgr.model.power import PowerBudget


@dataclass(frozen=True)
class BudgetTree:
    """The budgets with the hosts of each, those of its children included."""

    budgets: tuple[PowerBudget, ...]
    hosts: Mapping[str, frozenset[str]]

    @cached_property
    def by_name(self) -> Mapping[str, PowerBudget]:
        """The budgets by their names."""
        return {each.name: each for each in self.budgets}

    @cached_property
    def of_host(self) -> Mapping[str, tuple[PowerBudget, ...]]:
        """The budgets that a host is under, by its name."""
        found: dict[str, list[PowerBudget]] = {}
        for budget in self.budgets:
            for host in self.hosts[budget.name]:
                found.setdefault(host, []).append(budget)
        return {host: tuple(over) for host, over in found.items()}

    def up(self, budget: PowerBudget) -> Iterator[PowerBudget]:
        """The budget, its parent, and so on."""
        here: PowerBudget | None = budget
        while here is not None:
            yield here
            here = self.by_name.get(here.parent)

    def host_watts(self, host: str) -> int:
        """What a host draws without its GPUs, by the nearest budget that says so."""
        over = self.of_host.get(host, ())
        nearest = max(over, key=lambda each: len(list(self.up(each))), default=None)
        told = (each.host_watts for each in (self.up(nearest) if nearest else ()))
        return next((watts for watts in told if watts is not None), 0)


def tree_of(budgets: Sequence[PowerBudget], hosts: Iterable[HostRecord]) -> BudgetTree:
    """The tree over these hosts, leaves before their parents; a host that is gone is in none."""
    known, ordered = tuple(hosts), tuple(_leaves_first(budgets))
    found: dict[str, frozenset[str]] = {}
    for budget in ordered:
        own = {host.name for host in known if _holds_for(budget, host)}
        below = (found[each.name] for each in ordered if each.parent == budget.name)
        found[budget.name] = frozenset(own).union(*below)
    return BudgetTree(budgets=ordered, hosts=found)


def require_tree(budgets: Sequence[PowerBudget]) -> None:
    """NotFound for a parent that is none of them, Conflict for budgets in a circle."""
    names = {each.name: each for each in budgets}
    for budget in budgets:
        seen, here = {budget.name}, budget
        while here.parent:
            parent = names.get(here.parent)
            if parent is None:
                raise NotFound(
                    f"power budget {here.name} names {here.parent} as its parent, which is none",
                    why=f"budgets: {', '.join(sorted(names))}",
                    next="vgpumgr power list",
                )
            if parent.name in seen:
                raise Conflict(
                    f"power budget {parent.name} would be above itself",
                    why=f"its parents are {', '.join(sorted(seen))}",
                    next="give one of them no parent",
                )
            seen.add(parent.name)
            here = parent


def _holds_for(budget: PowerBudget, host: HostRecord) -> bool:
    labels = budget.host_labels
    labelled = bool(labels) and all(host.labels.get(key) == labels[key] for key in labels)
    return labelled or host.name in budget.hosts


def _leaves_first(budgets: Sequence[PowerBudget]) -> Iterator[PowerBudget]:
    children: dict[str, list[PowerBudget]] = {}
    for each in budgets:
        children.setdefault(each.parent, []).append(each)
    names = {each.name for each in budgets}
    waiting = [each for each in budgets if each.parent not in names]
    found: list[PowerBudget] = []
    while waiting:
        here = waiting.pop()
        found.append(here)
        waiting += children.get(here.name, [])
    return reversed(found)
