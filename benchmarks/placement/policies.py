"""Every policy by name: the product's own and the baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.placement.baselines import MORE_RULES, RULES, baseline
from benchmarks.placement.planned_anew import PlannedAnew
from benchmarks.placement.policy import Policy
from benchmarks.placement.product import BulkProduct, Ingredients, Product
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.traces import Shape, Task
from vgpumgr.model.vm import PlacementPolicy

OURS = "vgpumgr"
"""Least fragmentation with all that it has, as the product runs it."""

BULK = "vgpumgr-bulk"
"""The same, given each window of requests as one order."""

ANEW = "vgpumgr-anew"
"""The same, with a plan of what is free every 300 requests, as commands and ``serve`` make it."""

_Make = Callable[[Arrivals, Sequence[Shape]], Policy]


def _without(**parts: bool) -> _Make:
    left = Ingredients(**parts)
    return lambda arrivals, past: Product(arrivals, history=past, parts=left)


def _by(policy: PlacementPolicy) -> _Make:
    return lambda arrivals, _past: Product(arrivals, policy)


PRODUCT: dict[str, _Make] = {
    OURS: _without(),
    BULK: lambda arrivals, past: BulkProduct(arrivals, history=past),
    ANEW: lambda arrivals, past: PlannedAnew(arrivals, history=past),
    "vgpumgr-no-learning": _without(learns=False),
    "vgpumgr-no-quotas": _without(quotas=False),
    "vgpumgr-no-prices": _without(prices=False),
    "vgpumgr-no-plan": _without(quotas=False, prices=False),
    "vgpumgr-no-mix": _without(mix=False, quotas=False, prices=False),
    "vgpumgr-breadth-first": _by(PlacementPolicy.BREADTH_FIRST),
    "vgpumgr-depth-first": _by(PlacementPolicy.DEPTH_FIRST),
}
DEFAULT = (OURS, *RULES)
NAMES = (*PRODUCT, *RULES, *MORE_RULES)


def make(name: str, arrivals: Arrivals, tasks: Sequence[Task], history: Sequence[Task]) -> Policy:
    """The policy on the empty fleet. Ours knows ``history``, FGD the mix of all ``tasks``."""
    if name in PRODUCT:
        return PRODUCT[name](arrivals, [task.shape for task in history])
    return baseline(name, arrivals, tasks)


def knows_history(name: str) -> bool:
    """Whether it makes a difference to the policy which share of the tasks is known."""
    return name in PRODUCT
