"""The score plane of ``least-fragmentation``, with the capacity plan's soft quotas."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.supply import Offer
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, QuotaTally, group_key
from vgpumgr.placement.fit.host_fit import Fit, find_fit
from vgpumgr.placement.fit.policy_keys import Key, Keys
from vgpumgr.placement.resources.demand import Demand, surplus
from vgpumgr.placement.resources.gpu_slots import Spot
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.scores.fragmentation import MixRows, Worths
from vgpumgr.placement.scores.fragmentation_rating import FragmentationRater
from vgpumgr.placement.scores.score_plane import NEVER, Plane, Scores
from vgpumgr.placement.tables.gpu_states import StateTable
from vgpumgr.placement.tables.host_table import HostFilters, HostRows
from vgpumgr.placement.tables.request_types import Ints, RequestTypes

# Hosts of one class lie side by side in the matrix, so a decision takes the best host of each
# class, adds what the class costs, and compares classes.


class PlanQuotas:
    """One plan over hosts in the matrix's order, and how much of it is used up."""

    def __init__(self, plan: CapacityPlan, hosts: list[str]) -> None:
        self._tally = QuotaTally(plan, hosts)
        classes = self._tally.host_class
        self._starts: Ints = np.flatnonzero(np.diff(classes, prepend=classes.min(initial=0) - 1))
        self._ends = np.append(self._starts[1:], len(hosts))
        self._classes = classes[self._starts]
        self.group = self._tally.group

    def count(self, group: int, host: int, change: int) -> None:
        """Note that a VM was placed on a host (by its number), or left it."""
        self._tally.count(group, host, change)

    def best(self, row: NDArray[Any], group: int, rank: Ints) -> int:
        """The best host for a row of the matrix; ``rank`` breaks ties between classes."""
        best = np.maximum.reduceat(row, self._starts)
        worth = best - self._tally.by_class(group)[self._classes]
        tied = np.flatnonzero(worth == worth.max()).tolist()
        return min((self._first(row, each) for each in tied), key=lambda host: int(rank[host]))

    def _first(self, row: NDArray[Any], segment: int) -> int:
        start, end = self._starts[segment], self._ends[segment]
        return int(start) + int(row[start:end].argmax())


class FragmentationPlane(Plane):
    """The best host of a row, by the plan's quotas too; the exact fit has the last word."""

    kind = np.float32
    _rater: FragmentationRater

    def __init__(self, hosts: HostRows, standing: HostFilters, table: StateTable) -> None:
        super().__init__(hosts, standing, table)
        self.expect(MixRows([], table))
        self._quotas: PlanQuotas | None = None
        self._groups: list[int] = []
        self._rank: Ints = np.arange(len(hosts.states))

    def expect(self, mix: MixRows) -> None:
        """Another mix; scores are of the old one until ``go_by``."""
        self._mix = mix
        self._keys = Keys(self._loss, _same, places=mix.valued)

    def rater(self, wants: RequestTypes) -> FragmentationRater:
        """A rater for these types."""
        return FragmentationRater(self.hosts, self.table, wants, self._mix)

    def go_by(self, quotas: PlanQuotas | None, rank: Ints, worth: Worths | None) -> None:
        """Another plan: its quotas, ``rank`` for ties between its classes, what GPUs are worth."""
        self._quotas, self._rank, self._groups = quotas, rank, []
        self._mix.value(worth)
        self.score_anew()

    def best(self, number: int) -> Fit | None:
        """Where a VM of type ``number`` goes."""
        row = self.scores[number]
        while len(row):
            host = self._top(row, number)
            if row[host] == NEVER:
                break
            fit = self._fit(number, host)
            if fit is not None:
                return fit
            # It looked as if it fitted; nothing to try again there until the host changes.
            row[host] = NEVER
        return None

    def _top(self, row: Scores, number: int) -> int:
        if self._quotas is None:
            return int(row.argmax())
        for demand in self.wants.demands[len(self._groups) :]:
            self._groups.append(self._quotas.group(group_key(demand)))
        return self._quotas.best(row, self._groups[number], self._rank)

    def _fit(self, number: int, host: int) -> Fit | None:
        demand, state = self.wants.demands[number], self.hosts.states[host]
        if demand.parts != 1:
            return find_fit(state, demand, self._keys_of(demand))
        rows, scores = self._rater.ways(number, host)
        if not self.hosts.intricate[host]:
            at = self.hosts.rows[host].tolist().index(rows[scores.index(max(scores))])
            keys = self._keys if self._mix.valued else None
            return find_fit(state, demand, keys, only=[state.gpus[at]])
        rank = dict(zip(rows, (-score for score in scores), strict=True))
        row_of = self.table.row_of

        def ranked(gpu: GpuOccupancy, offer: Offer, spot: Spot) -> Key:
            loss = self._loss(gpu, offer, spot) if self._mix.valued else ()
            return rank.get(row_of(gpu), np.inf), *loss

        keys = Keys(ranked, _same, places=self._mix.valued)
        if state.supply.partitions:
            return find_fit(state, demand, keys)
        best = min(rank.values())
        top = [row for row, value in rank.items() if value == best]
        fit = find_fit(state, demand, keys, only=self._different(host, top))
        if fit is not None and not fit.strays:
            return fit
        return find_fit(state, demand, keys, only=self._different(host, rank))

    def _different(self, host: int, wanted: Container[int]) -> list[GpuOccupancy]:
        """One GPU of each wanted state on each NUMA node: the rest are no better, and no worse."""
        found: dict[tuple[int, int | None], GpuOccupancy] = {}
        gpus, rows = self.hosts.states[host].gpus, self.hosts.rows[host].tolist()
        for gpu, row in zip(gpus, rows, strict=False):
            if row in wanted:
                found.setdefault((row, gpu.numa_node), gpu)
        return list(found.values())

    def _keys_of(self, demand: Demand) -> Keys:
        """By loss, and what a part by size takes beyond what was asked for."""
        if all(kind.profile for kind in demand.kinds):
            return self._keys

        def costing(gpu: GpuOccupancy, offer: Offer, spot: Spot) -> Key:
            loss, *ties = self._loss(gpu, offer, spot)
            after = self.table.after_spot(gpu, offer, spot)
            taken = self.table.free[self.table.row_of(gpu)] - self.table.free[after]
            return (loss + _surplus(demand, offer) * float(taken), *ties)

        return Keys(costing, _same, places=self._mix.valued)

    def _loss(self, gpu: GpuOccupancy, offer: Offer, spot: Spot) -> Key:
        before, after = self.table.row_of(gpu), self.table.after_spot(gpu, offer, spot)
        self._mix.catch_up()
        return self._mix.loss(before, after)


def _surplus(demand: Demand, offer: Offer) -> float:
    """Of what the offer takes, for the part of the demand that it answers best."""
    by_size = [surplus(offer, kind) for kind in demand.kinds if not kind.profile]
    return min(by_size, default=0.0)


def _same(_host: object) -> Key:
    return ()
