"""Every policy by name: the product's own and the baselines."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.placement.baselines import RULES, baseline
from benchmarks.placement.policy import Policy
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.traces import Task

OURS = "vgpumgr"
"""Least fragmentation with mix and plan from the history, as the product runs it."""

ABLATIONS = (
    "vgpumgr-no-plan",
    "vgpumgr-no-history",
    "vgpumgr-breadth-first",
    "vgpumgr-depth-first",
)
DEFAULT = (OURS, *RULES)
NAMES = (*DEFAULT, *ABLATIONS)


def make(name: str, arrivals: Arrivals, tasks: Sequence[Task], history: Sequence[Task]) -> Policy:
    """The policy on the empty fleet. Ours knows ``history``, FGD the mix of all ``tasks``."""
    if name in RULES:
        return baseline(name, arrivals, tasks)
    from benchmarks.placement.product import Product
    from vgpumgr.model.vm import PlacementPolicy

    past = [task.shape for task in history]
    rest = name.removeprefix(OURS).removeprefix("-")
    if rest in ("", "no-plan", "no-history"):
        known = () if rest == "no-history" else past
        policy = PlacementPolicy.LEAST_FRAGMENTATION
        return Product(arrivals, policy, known, planned=rest == "")
    return Product(arrivals, PlacementPolicy(rest))
