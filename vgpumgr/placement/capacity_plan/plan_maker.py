"""Makes a capacity plan of fleet and request history, by a linear program that HiGHS solves.

The program says what each class of hosts takes when the fleet is full. Hosts of a class are one
pool of vCPUs and memory, and requests may be split; GPUs are not: what lies on them flows along
the arcs of the transition graph, from the states that they are in.

First, how many times the mix fits (its duals are prices). Where that ends with what only a few
groups go by (GPUs of a scarce model), they get as much, and then how many times the rest fits;
and so on. At last, nearly that full, the way that leaves the most vCPUs to spare per host.
Solved by interior point, so that what is indifferent is spread evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.capacity_plan.host_pools import HostPool, HostPools, pools_of
from vgpumgr.placement.capacity_plan.priors import with_priors
from vgpumgr.placement.capacity_plan.quota_plan import CapacityPlan, NoPlan, RequestGroup, groups_of
from vgpumgr.placement.capacity_plan.state_transitions import TransitionGraph, flow
from vgpumgr.placement.tables.gpu_states import MILLI

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_ROUNDS = 3
"""So often groups that are short are set apart; two do nearly always."""


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedUse:
    """``taken`` [classes × groups] and the price of each column of the table in it (milli GPU)."""

    taken: Floats
    prices: dict[int, float]
    fits: float


def expected(
    pools: HostPools, groups: Sequence[RequestGroup], *, load: float, effort: int
) -> ExpectedUse | NoPlan:
    """NoPlan where the program is too large, or ``effort`` did not solve it (for each time)."""
    found = _fullest(pools, groups, load, effort)
    if isinstance(found, NoPlan):
        return found
    model, fits, duals = found
    even = model.program.solve(effort, fix=[(model.times, load * fits)], free=[model.times])
    if even is None:
        return NoPlan.UNSOLVED
    taken = model.taken(even.values)
    return ExpectedUse(taken, model.prices(duals), float(taken.sum()) / load)


def _fullest(
    pools: HostPools,
    groups: Sequence[RequestGroup],
    load: float,
    effort: int,
    held: Mapping[int, float] = MappingProxyType({}),
    rounds: int = MOST_ROUNDS,
) -> tuple[FleetProgram, float, Floats] | NoPlan:
    """The program, how many times what grows in it fits, and the duals."""
    model = FleetProgram(pools, groups, held)
    if not model.build():
        return NoPlan.TOO_LARGE
    full = model.program.solve(effort, free=model.spare)
    if full is None:
        return NoPlan.UNSOLVED
    fits = float(full.values[model.times])
    fuller: tuple[FleetProgram, float, Floats] | NoPlan = NoPlan.NO_ROOM
    if short := model.short(full.duals) if rounds else {}:
        more = {number: load * fits * count for number, count in short.items()}
        fuller = _fullest(pools, groups, load, effort, {**held, **more}, rounds - 1)
    if isinstance(fuller, NoPlan) and fits > 0:
        return model, fits, full.duals
    return fuller


FEWEST = 200
"""Requests of history below which a plan would follow chance."""

LOAD = 0.998
"""How full the plan makes the fleet, of what the mix can: just short, for a choice of ways."""


EFFORT = 20_000_000
"""Iterations times coefficients, each time a program is solved: 2.5 s of a core at most (0.12 µs
each); 1,213 hosts with 14 kinds of GPU take 1.3 to 3 million."""


def make_plan(
    fleet: Fleet, history: Sequence[VmSpec], *, load: float = LOAD, effort: int = EFFORT
) -> CapacityPlan | NoPlan:
    """A plan for what the fleet has free, if requests go on to come like the history.

    ``load`` is how full it makes the fleet, of the fullest that this mix can (0 to 1). There is
    none without highspy, with fewer than 200 requests in the history, where the program is too
    large (more than 150,000 ways of putting a part on a GPU), or where ``effort`` does not solve it
    any of the two times (up to five where models of GPUs are scarce).
    """
    if len(history) < FEWEST:
        return NoPlan.TOO_FEW
    if not fleet.hosts:
        return NoPlan.NO_ROOM
    if not solver_is_there():
        return NoPlan.NO_SOLVER
    groups = with_priors(groups_of(history), fleet)
    pools = pools_of(fleet, groups)
    if not pools.may.any():
        return NoPlan.NO_ROOM
    found = expected(pools, groups, load=load, effort=effort)
    if isinstance(found, NoPlan):
        return found
    prices = tuple(
        (pools.table.parts.all[column], price) for column, price in sorted(found.prices.items())
    )
    known = {group.key: number for number, group in enumerate(groups) if _taken(pools, number)}
    return CapacityPlan(pools.class_of, known, found.taken, prices, found.fits)


def _taken(pools: HostPools, group: int) -> bool:
    """A group that nothing takes now has no quota."""
    return bool(np.any(pools.may[:, group]))


def solver_is_there() -> bool:
    """Whether highspy can be imported."""
    return find_spec("highspy") is not None


@dataclass(frozen=True, slots=True)
class Solution:
    """``values`` by column, ``duals`` by row, of a program that was minimised."""

    values: Floats
    duals: Floats


class LinearProgram:
    """Minimise; columns are at least 0, rows have bounds."""

    def __init__(self) -> None:
        self.columns = 0
        self._cost: list[Floats] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._rows: list[tuple[Ints, Floats]] = []
        self._tops: list[tuple[int, float]] = []

    def add_columns(self, count: int, cost: ArrayLike = 0.0) -> Ints:
        """Numbers of new columns."""
        numbers = np.arange(self.columns, self.columns + count)
        self.columns += count
        self._cost.append(np.array(np.broadcast_to(np.asarray(cost, np.float64), (count,))))
        return numbers

    def at_most(self, column: int, top: float) -> None:
        """An upper bound of a column."""
        self._tops.append((column, top))

    def add_row(
        self, columns: Ints, values: ArrayLike, *, low: float = -np.inf, high: float = np.inf
    ) -> int:
        """The number of a new row."""
        spread = np.array(np.broadcast_to(np.asarray(values, np.float64), (len(columns),)))
        self._rows.append((np.asarray(columns, np.int64), spread))
        self._low.append(low)
        self._high.append(high)
        return len(self._rows) - 1

    def solve(
        self, effort: int, *, fix: Sequence[tuple[int, float]] = (), free: Sequence[int] = ()
    ) -> Solution | None:
        """By interior point, to the middle of the best face: no crossover. None: not solved.

        ``effort`` bounds the iterations times the non-zero coefficients: work that is counted,
        so that a busy machine gives the same answer. ``fix`` sets columns to a value, ``free``
        takes their costs away.
        """
        model = self._model(fix, free)
        highs = _highs(max(1, effort // max(1, len(model.a_matrix_.value_))))
        highs.passModel(model)
        highs.run()
        if highs.modelStatusToString(highs.getModelStatus()) != "Optimal":
            return None
        found = highs.getSolution()
        return Solution(np.array(found.col_value), np.array(found.row_dual))

    def _model(self, fix: Sequence[tuple[int, float]], free: Sequence[int]) -> Any:
        highspy: Any = import_module("highspy")
        model = highspy.HighsLp()
        low, high = np.zeros(self.columns), np.full(self.columns, np.inf)
        cost = np.concatenate(self._cost) if self._cost else np.zeros(0)
        cost[list(free)] = 0.0
        for column, top in self._tops:
            high[column] = top
        for column, value in fix:
            low[column] = high[column] = value
        model.num_col_, model.num_row_ = self.columns, len(self._rows)
        model.col_cost_, model.col_lower_, model.col_upper_ = cost, low, high
        model.row_lower_, model.row_upper_ = np.array(self._low), np.array(self._high)
        matrix = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        lengths = [len(columns) for columns, _ in self._rows]
        matrix.start_ = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        matrix.index_ = np.concatenate([columns for columns, _ in self._rows]).astype(np.int32)
        matrix.value_ = np.concatenate([values for _, values in self._rows])
        return model


def _highs(iterations: int) -> Any:
    highspy: Any = import_module("highspy")
    highs = highspy.Highs()
    for option in (
        ("output_flag", False), ("solver", "ipm"), ("run_crossover", "off"), ("threads", 1),
        ("parallel", "off"), ("ipm_iteration_limit", iterations),
    ):  # fmt: skip
        highs.setOptionValue(*option)
    return highs


MOST_ARCS = 150_000

SPARE = ((0.125, 6.4), (0.25, 3.2), (0.375, 1.6), (0.625, 0.8), (1.25, 0.4), (2.5, 0.2), (4.0, 0.1))
"""What spare vCPUs per host are worth: up to so many average requests, so much each. Falling, so
that all classes have a little before any has much."""

_MEMORY_UNIT = 1024.0
_SHORT = 1e-3
"""A dual above it is one (milli GPU): without crossover what is not short keeps a little of it."""


class FleetProgram:
    """``times`` is the column that says how many times the mix fits; ``spare`` are columns of
    vCPUs.

    ``held`` are groups that get a fixed number, however often the rest fits.
    """

    def __init__(
        self, pools: HostPools, groups: Sequence[RequestGroup], held: Mapping[int, float]
    ) -> None:
        self._held = held
        self._growing: dict[int, int] = {}
        self.program = LinearProgram()
        self.times = int(self.program.add_columns(1, -MILLI)[0])
        self.spare: list[int] = []
        self._pools = pools
        self._groups = groups
        self._requests = np.full(pools.may.shape, -1, np.int64)
        self._nodes: list[dict[int, int]] = []
        self._families: list[tuple[TransitionGraph, dict[int, int]]] = []
        self._columns = sorted({column for each in pools.columns for column, _ in each})
        self._flows: dict[frozenset[int], TransitionGraph | None] = {}
        counts = np.array([group.count for group in groups], np.float64)
        vcpus = np.array([group.demand.vcpus for group in groups], np.float64)
        self._unit = max(1.0, float(counts @ vcpus / counts.sum()))

    def build(self) -> bool:
        """False where it is too large."""
        arcs = 0
        for number, pool in enumerate(self._pools.pools):
            found = self._flow(pool)
            arcs += MOST_ARCS + 1 if found is None else len(found.tail)
            if found is None or arcs > MOST_ARCS:
                return False
            self._add_pool(number, pool, found)
        for number, group in enumerate(self._groups):
            takers = self._requests[:, number]
            takers = takers[takers >= 0]
            # A group that nothing takes would keep the rest out too.
            if len(takers):
                self._add_group(number, takers, float(group.count))
        return True

    def short(self, duals: Floats) -> dict[int, float]:
        """Groups for which something is short, and how many of each are in the mix.

        None where that is most of what asks for GPUs: then GPUs as such are short.
        """
        found = {n for n, row in self._growing.items() if abs(duals[row]) > _SHORT}
        asking = {n: self._groups[n].count for n in self._growing if self._groups[n].demand.kinds}
        if 2 * sum(asking[n] for n in found & asking.keys()) >= sum(asking.values()):
            return {}
        return {n: float(self._groups[n].count) for n in found}

    def taken(self, values: Floats) -> Floats:
        """[classes × groups] of a solution."""
        return np.where(self._requests >= 0, values[self._requests].clip(0), 0.0)

    def prices(self, duals: Floats) -> dict[int, float]:
        """By column, over the classes by their GPUs; a class where GPUs are not short says none."""
        brought: dict[int, float] = {}
        weights: dict[int, float] = {}
        for pool, nodes, (found, rows) in zip(
            self._pools.pools, self._nodes, self._families, strict=True
        ):
            whole = self._whole(nodes, duals)
            if whole <= _NOTHING:
                continue
            weight = float(sum(pool.gpus.values()))
            for column, family in zip(self._columns, found.family_of.tolist(), strict=True):
                if family in rows:
                    price = max(0.0, -duals[rows[family]]) / whole * MILLI
                    brought[column] = brought.get(column, 0.0) + weight * price
                    weights[column] = weights.get(column, 0.0) + weight
        return {column: brought[column] / weights[column] for column in brought}

    def _whole(self, nodes: dict[int, int], duals: Floats) -> float:
        """The price of a whole GPU of a class, by the emptiest that it has."""
        free = self._pools.table.free
        emptiest = max(nodes, key=lambda row: free[row], default=0)
        share = float(free[emptiest]) / MILLI
        return -float(duals[nodes[emptiest]]) / share if share else 0.0

    def _flow(self, pool: HostPool) -> TransitionGraph | None:
        start = frozenset(pool.gpus)
        if start not in self._flows:
            self._flows[start] = flow(sorted(start), self._columns, self._pools.table, MOST_ARCS)
        return self._flows[start]

    def _add_pool(self, number: int, pool: HostPool, found: TransitionGraph) -> None:
        groups = np.flatnonzero(self._pools.may[number])
        requests = self.program.add_columns(len(groups))
        self._requests[number, groups] = requests
        arcs = self.program.add_columns(len(found.tail))
        self._add_states(pool, found, arcs)
        self._add_parts(found, arcs, groups, requests)
        members = [self._groups[group] for group in groups.tolist()]
        vcpus = np.array([group.demand.vcpus for group in members]) / self._unit
        memory = np.array([group.memory_mib for group in members]) / _MEMORY_UNIT
        columns, values = self._add_spare(pool)
        self.program.add_row(
            np.append(requests, columns), np.append(vcpus, values), high=pool.vcpus / self._unit
        )
        self.program.add_row(requests, memory, high=pool.memory_mib / _MEMORY_UNIT)

    def _add_group(self, number: int, takers: Ints, count: float) -> None:
        ones = np.ones(len(takers))
        if number in self._held:
            self.program.add_row(takers, ones, low=self._held[number], high=self._held[number])
            return
        columns, values = np.append(takers, self.times), np.append(ones, -count)
        self._growing[number] = self.program.add_row(columns, values, low=0.0, high=0.0)

    def _add_states(self, pool: HostPool, found: TransitionGraph, arcs: Ints) -> None:
        """No more GPUs leave a state than are in it or come to it."""
        rows: dict[int, int] = {}
        leaving, coming = _by(found.tail, len(found.nodes)), _by(found.head, len(found.nodes))
        for node, row in enumerate(found.nodes.tolist()):
            out, into = arcs[leaving[node]], arcs[coming[node]]
            if len(out) + len(into):
                values = np.append(np.ones(len(out)), -np.ones(len(into)))
                there = float(pool.gpus.get(row, 0))
                rows[row] = self.program.add_row(np.append(out, into), values, high=there)
        self._nodes.append({row: at for row, at in rows.items() if row in pool.gpus})

    def _add_parts(self, found: TransitionGraph, arcs: Ints, groups: Ints, requests: Ints) -> None:
        """Arcs taken are parts that requests have."""
        at = {column: n for n, column in enumerate(self._columns)}
        having: list[list[tuple[int, float]]] = [[] for _ in range(found.families)]
        for group, request in zip(groups.tolist(), requests.tolist(), strict=True):
            for column, count in self._pools.columns[group]:
                having[found.family_of[at[column]]].append((request, float(count)))
        rows: dict[int, int] = {}
        for family, taking in enumerate(_by(found.family, found.families)):
            had = having[family]
            columns = np.append(np.array([r for r, _ in had], np.int64), arcs[taking])
            values = np.append([count for _, count in had], -np.ones(len(taking)))
            row = self.program.add_row(columns, values, low=0.0, high=0.0)
            if had:
                rows[family] = row
        self._families.append((found, rows))

    def _add_spare(self, pool: HostPool) -> tuple[Ints, Floats]:
        """Columns for vCPUs that stay unused, and how many vCPUs a unit of each stands for."""
        before, columns = 0.0, []
        for up_to, worth in SPARE:
            column = int(self.program.add_columns(1, -worth * pool.hosts)[0])
            self.program.at_most(column, up_to - before)
            columns.append(column)
            before = up_to
        self.spare += columns
        return np.array(columns), np.full(len(columns), float(pool.hosts))


_NOTHING = 1e-9


def _by(numbers: Ints, count: int) -> list[Ints]:
    """Positions by number."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, count)))[:count]
