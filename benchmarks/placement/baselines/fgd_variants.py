"""FGD with one thing changed each: how ties go, no rounding, a best-fit term."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.placement.baselines.cluster import Cluster, Floats
from benchmarks.placement.baselines.fgd import Fgd
from benchmarks.placement.traces import MILLI, Shape


class FgdRandomTies(Fgd):
    """The same, but a tie goes to any of the best hosts."""

    def __init__(
        self, cluster: Cluster, mix: Mapping[Shape, float], random: np.random.Generator
    ) -> None:
        super().__init__(cluster, mix)
        self._random = random

    def choose(self, kind: int, row: Floats) -> int:
        return int(self._random.choice(np.flatnonzero(row == row.max())))


class FgdUnrounded(Fgd):
    """The same without rounding: near ties are no ties."""

    def rated(self, decrease: Floats) -> Floats:
        return decrease


class FgdBestFit(FgdUnrounded):
    """Unrounded, less a little for CPU and GPUs that stay idle on the host."""

    WEIGHT = 50.0
    """Thousandths of a GPU for a host left idle that is as large as the largest."""

    def scores(self, host: int) -> Floats:
        cluster, shapes = self.cluster, self.cluster.shapes
        cpu = (cluster.cpu[host] - shapes.cpu) / cluster.cpu_total.max()
        gpus = (cluster.free(host).sum() - shapes.demand) / (MILLI * cluster.counts.max())
        scores: Floats = super().scores(host) - self.WEIGHT * (cpu + gpus)
        return scores
