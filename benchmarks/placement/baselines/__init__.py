"""Policies to compare with: the six of the FGD paper, FGD with random ties, product rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.placement.baselines.cluster import Cluster
from benchmarks.placement.baselines.engine import Baseline, Rule, cluster_of
from benchmarks.placement.baselines.fgd import Fgd, FgdRandomTies, popular
from benchmarks.placement.baselines.packing import BestFit, Clustering, DotProd, Packing, Random
from benchmarks.placement.baselines.products import Hami, Kubernetes, Nova, Vsphere
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.traces import Task

__all__ = ["RULES", "baseline"]

_CHOICES = 4
"""The stream of random numbers of those policies that draw."""

_Make = Callable[[Cluster, Sequence[Task], np.random.Generator], Rule]

RULES: dict[str, _Make] = {
    "random": lambda cluster, _, random: Random(cluster, random),
    "dotprod": lambda cluster, *_: DotProd(cluster),
    "clustering": lambda cluster, *_: Clustering(cluster),
    "packing": lambda cluster, *_: Packing(cluster),
    "bestfit": lambda cluster, *_: BestFit(cluster),
    "fgd": lambda cluster, tasks, _: Fgd(cluster, popular([task.shape for task in tasks])),
    "fgd-random-ties": lambda cluster, tasks, random: FgdRandomTies(
        cluster, popular([task.shape for task in tasks]), random
    ),
    "k8s": lambda cluster, *_: Kubernetes(cluster),
    "nova": lambda cluster, *_: Nova(cluster),
    "hami": lambda cluster, *_: Hami(cluster),
    "vsphere": lambda cluster, *_: Vsphere(cluster),
}


def baseline(name: str, arrivals: Arrivals, tasks: Sequence[Task]) -> Baseline:
    """The baseline of that name on the empty fleet; FGD knows the mix of all ``tasks``."""
    cluster = cluster_of(arrivals.hosts, arrivals.shapes)
    random = np.random.default_rng((arrivals.seed, _CHOICES))
    return Baseline(cluster, RULES[name](cluster, tasks, random))
