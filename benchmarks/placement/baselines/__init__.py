"""Policies to compare with: the six of the FGD paper, FGD with random ties, product rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.placement.baselines.cluster import Cluster
from benchmarks.placement.baselines.engine import Baseline, Rule, cluster_of
from benchmarks.placement.baselines.fgd import Fgd, popular
from benchmarks.placement.baselines.fgd_variants import FgdBestFit, FgdRandomTies, FgdUnrounded
from benchmarks.placement.baselines.packing import BestFit, Clustering, DotProd, Packing, Random
from benchmarks.placement.baselines.products import Hami, Kubernetes, Nova, Vsphere
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.traces import Shape, Task

__all__ = ["MORE_RULES", "RULES", "baseline"]

_CHOICES = 4
"""The stream of random numbers of those policies that draw."""

_Make = Callable[[Cluster, Sequence[Task], np.random.Generator], Rule]

RULES: dict[str, _Make] = {
    "random": lambda cluster, _, random: Random(cluster, random),
    "dotprod": lambda cluster, *_: DotProd(cluster),
    "clustering": lambda cluster, *_: Clustering(cluster),
    "packing": lambda cluster, *_: Packing(cluster),
    "bestfit": lambda cluster, *_: BestFit(cluster),
    "fgd": lambda cluster, tasks, _: Fgd(cluster, _mix(tasks)),
    "fgd-random-ties": lambda cluster, tasks, random: FgdRandomTies(cluster, _mix(tasks), random),
    "k8s": lambda cluster, *_: Kubernetes(cluster),
    "nova": lambda cluster, *_: Nova(cluster),
    "hami": lambda cluster, *_: Hami(cluster),
    "vsphere": lambda cluster, *_: Vsphere(cluster),
}

MORE_RULES: dict[str, _Make] = {
    "fgd-unrounded": lambda cluster, tasks, _: FgdUnrounded(cluster, _mix(tasks)),
    "fgd-best-fit": lambda cluster, tasks, _: FgdBestFit(cluster, _mix(tasks)),
}
"""What lies between FGD and ours: shown where ours is taken apart."""


def baseline(name: str, arrivals: Arrivals, tasks: Sequence[Task]) -> Baseline:
    """The baseline of that name on the empty fleet; FGD knows the mix of all ``tasks``."""
    cluster = cluster_of(arrivals.hosts, arrivals.shapes)
    random = np.random.default_rng((arrivals.seed, _CHOICES))
    return Baseline(cluster, {**RULES, **MORE_RULES}[name](cluster, tasks, random))


def _mix(tasks: Sequence[Task]) -> dict[Shape, float]:
    return popular([task.shape for task in tasks])
