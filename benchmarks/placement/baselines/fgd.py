"""Fragmentation gradient descent (Weng et al., USENIX ATC 2023), integer scores as published.

A host's fragmentation: idle GPU thousandths that a task drawn from the mix could not use there.
With ``g`` free on each GPU and ``c`` CPU left: ``sum(g) - sum over kinds k of P_k(c) U_k(g)``.
``P_k(c)`` is the share of the mix that is of GPU kind ``k`` and needs no more CPU than ``c``, and
``U_k(g)`` what lies on GPUs with room for the kind, where there are enough of them, else 0. A kind
is a size per GPU, a number of GPUs and a set of models. The mix: the commonest types that make up
95 % of the tasks, CPU-only ones among them, memory left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.placement.baselines.cluster import Cluster, Floats, Ints
from benchmarks.placement.baselines.engine import Rule
from benchmarks.placement.traces import MILLI, Shape

POPULAR = 0.95
"""How much of the tasks the mix covers."""

_Kind = tuple[int, int, tuple[str, ...]]


def popular(shapes: Sequence[Shape]) -> dict[Shape, float]:
    """The commonest types, memory left out, with their shares among themselves."""
    bare = (Shape(s.cpu_milli, 0, s.gpus, s.gpu_milli, s.models) for s in shapes)
    kept: dict[Shape, float] = {}
    ranked = sorted(Counter(bare).items(), key=_commonest, reverse=True)
    for shape, count in ranked:
        if sum(kept.values()) >= POPULAR * len(shapes):
            break
        kept[shape] = float(count)
    total = sum(kept.values())
    return {shape: count / total for shape, count in kept.items()}


def _commonest(item: tuple[Shape, int]) -> tuple[int, int, int, int, str]:
    shape, count = item
    return count, shape.cpu_milli, shape.gpu_milli, shape.gpus, "|".join(shape.models)


class Mix:
    """The mix as arrays: kinds, and ``P_k(c)`` per model as a table over steps of CPU."""

    def __init__(self, mix: Mapping[Shape, float], models: Sequence[str]) -> None:
        kinds: list[_Kind] = sorted({_kind(shape) for shape in mix if shape.gpus})
        self.milli = np.array([milli for milli, _, _ in kinds], dtype=np.int64)
        self.gpus = np.array([gpus for _, gpus, _ in kinds], dtype=np.int64)
        self._steps = np.unique([shape.cpu_milli for shape in mix])
        table = np.zeros((len(self._steps) + 1, len(kinds)))
        for shape, share in mix.items():
            if shape.gpus:
                step = int(np.searchsorted(self._steps, shape.cpu_milli))
                table[step + 1 :, kinds.index(_kind(shape))] += share
        self._likely = [
            table * [not allowed or model in allowed for _, _, allowed in kinds] for model in models
        ]

    def likely(self, model: int, cpu: Ints) -> Floats:
        """``P_k(c)`` of every kind on hosts of the model, for each amount of CPU left."""
        steps = np.searchsorted(self._steps, cpu, side="right")
        return self._likely[model][steps]


class Fgd(Rule):
    """The least growth of fragmentation, as an integer from 0 to 100."""

    def __init__(self, cluster: Cluster, mix: Mapping[Shape, float]) -> None:
        super().__init__(cluster)
        shapes = cluster.shapes
        self._mix = Mix(mix, cluster.models)
        self._shares = np.flatnonzero(shapes.share)
        self._sizes, self._size_of = np.unique(shapes.milli[self._shares], return_inverse=True)
        self._wholes = np.flatnonzero(~shapes.share)
        self._counts, self._count_of = np.unique(shapes.gpus[self._wholes], return_inverse=True)
        self._gpus = np.zeros((len(cluster.counts), len(shapes.all)), dtype=np.int64)

    def scores(self, host: int) -> Floats:
        cluster, shapes, mix = self.cluster, self.cluster.shapes, self._mix
        cpu, model, free = cluster.cpu[host], int(cluster.model[host]), cluster.free(host)
        now = self._usable_after_wholes(free, np.zeros(1, dtype=np.int64))[0]
        before = mix.likely(model, cpu) @ now
        likely = mix.likely(model, cpu - shapes.cpu)
        after = np.empty(len(shapes.all))
        wholes = self._usable_after_wholes(free, self._counts)[self._count_of]
        after[self._wholes] = (likely[self._wholes] * wholes).sum(axis=1)
        scores = np.zeros(len(shapes.all))
        if len(free):
            shares = self._usable_after_shares(free)[self._size_of]
            options = np.matmul(shares, likely[self._shares][:, :, None])[:, :, 0]
            rated = self.rated(shapes.demand[self._shares][:, None] - before + options)
            rated[free < shapes.milli[self._shares][:, None]] = -np.inf
            self._gpus[host, self._shares] = best = rated.argmax(axis=1)
            scores[self._shares] = np.take_along_axis(rated, best[:, None], axis=1)[:, 0]
        decrease = shapes.demand[self._wholes] - before + after[self._wholes]
        scores[self._wholes] = self.rated(decrease)
        return scores

    def rated(self, decrease: Floats) -> Floats:
        """The score of a decrease in thousandths of a GPU."""
        rated: Floats = np.trunc(100 / (1 + np.exp(-decrease / 1000)))
        return rated

    def gpu(self, kind: int, host: int) -> int:
        return int(self._gpus[host, kind])

    def _usable_after_wholes(self, free: Ints, taken: Ints) -> Floats:
        """``U_k`` after so many idle GPUs are taken: [taken, kinds]."""
        roomy = free[:, None] >= self._mix.milli
        usable = np.where(roomy, free[:, None], 0).sum(axis=0) - taken[:, None] * MILLI
        enough = roomy.sum(axis=0) - taken[:, None] >= self._mix.gpus
        return np.where(enough, usable, 0).astype(float)

    def _usable_after_shares(self, free: Ints) -> Floats:
        """``U_k`` after a share of each size went to each GPU: [sizes, GPUs, kinds]."""
        roomy = free[:, None] >= self._mix.milli
        worth = np.where(roomy, free[:, None], 0)
        left = (free - self._sizes[:, None])[:, :, None]
        still = left >= self._mix.milli
        usable = worth.sum(axis=0) - worth + np.where(still, left, 0)
        enough = roomy.sum(axis=0) - roomy + still >= self._mix.gpus
        return np.where(enough, usable, 0).astype(float)


def _kind(shape: Shape) -> _Kind:
    return shape.gpu_milli, shape.gpus, shape.models
