"""What no policy can exceed: a linear program over host classes and patterns of shares on one GPU.

Hosts of equal size and model are one class and its hosts one pool of CPU and memory; tasks may be
split. GPUs are not: the shares on one GPU are a pattern that fits on it, and of ``n`` GPUs a host
of ``g`` takes at most ``g // n`` tasks. Patterns are found as they pay (column generation), so the
optimum is that over all of them. Needs highspy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.placement.baselines.cluster import Floats, Ints
from benchmarks.placement.patterns import paying, single
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.traces import MILLI, Host, Shape

LEVELS = (95, 100, 130)
TOLERANCE = 1e-7
COUNTED = 0.01
"""What a task weighs beside its GPUs, so that CPU-only tasks count when all must be accepted."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Percentages of all GPUs. ``free``: with tasks refused at will, by arrived demand.

    ``fits_to_pct``: the longest beginning of the sequence that could be accepted whole;
    ``prefix_pct``: the most at the end with that beginning accepted.
    """

    free: dict[str, float]
    fits_to_pct: float
    prefix_pct: float


def bound(arrivals: Arrivals) -> Bound:
    """The bounds of one sequence."""
    program = _Program(arrivals.hosts, arrivals.shapes)
    full = arrivals.capacity / 100
    reached = np.cumsum(arrivals.demands) / full
    size = len(arrivals.shapes)

    def counts(requests: int) -> Floats:
        return np.bincount(arrivals.kinds[:requests], minlength=size).astype(float)

    nothing = np.zeros(size)
    free = {}
    for level in LEVELS:
        requests = int(np.searchsorted(reached, level)) + 1
        free[str(level)] = program.most(nothing, counts(requests)) * MILLI / full
    fits = _last(len(reached), lambda requests: program.takes_all(counts(requests)))
    most = _with_all_of(program, fits, counts, counts(len(reached))) * MILLI / full
    return Bound(
        {level: round(value, 4) for level, value in free.items()},
        round(float(reached[fits - 1]) if fits else 0.0, 4),
        round(most, 4),
    )


def _with_all_of(
    program: _Program, fits: int, counts: Callable[[int], Floats], arrived: Floats
) -> float:
    """The most with that beginning accepted; where the solver's tolerance alone let its last
    requests fit, with a shorter one, which bounds it from above as well.
    """
    for shorter in range(fits, 0, -1):
        try:
            return program.most(counts(shorter), arrived)
        except Infeasible:
            continue
    return program.most(np.zeros(len(arrived)), arrived)


def _last(count: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to ``count`` for which it holds; it holds for 0."""
    low, high = 0, count + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


class Infeasible(Exception):
    """What must be accepted does not fit."""


class _Program:
    """Columns: tasks of a shape on a class, and GPUs of a class cut by a pattern.

    Rows: requests per shape; CPU, memory and GPUs per class; tasks of at least ``n`` GPUs per
    class; room for shares of a size per class.
    """

    def __init__(self, hosts: Sequence[Host], shapes: Sequence[Shape]) -> None:
        highspy: Any = import_module("highspy")
        self._highs = highspy.Highs()
        for option in ("output_flag", False), ("threads", 1), ("parallel", "off"):
            self._highs.setOptionValue(*option)
        self._inf = highspy.kHighsInf
        self._shapes = shapes
        sized = ((h.cpu_milli, h.memory_mib, h.gpus, h.model) for h in hosts)
        self._classes = sorted(Counter(sized).items())
        self._sizes = np.unique([s.gpu_milli for s in shapes if s.share]).astype(np.int64)
        self._cuts = sorted({s.gpus for s in shapes if s.gpus > 1})
        self._patterns: set[tuple[int, tuple[int, ...]]] = set()
        self._costs: list[float] = []
        self._rows = len(shapes)
        for _ in shapes:
            self._highs.addRow(0.0, 0.0, 0, np.zeros(0, dtype=np.int32), np.zeros(0))
        self._first = [self._add_class(index) for index in range(len(self._classes))]
        for index in range(len(self._classes)):
            for pattern in single(self._sizes, MILLI):
                self._add_pattern(index, pattern)

    def most(self, least: Floats, arrived: Floats) -> float:
        """The most GPUs that can be held with so many requests of each shape (GPUs)."""
        return self._solve(least, arrived, 0.0)

    def takes_all(self, arrived: Floats) -> bool:
        """Whether all of them fit at once."""
        wanted = sum(
            n * (shape.demand / MILLI + COUNTED)
            for n, shape in zip(arrived, self._shapes, strict=True)
        )
        most = self._solve(np.zeros(len(arrived)), arrived, COUNTED)
        return bool(most > wanted - COUNTED / 10)

    def _add_class(self, index: int) -> int:
        """Its rows, then its tasks; returns the first of the rows."""
        (cpu, memory, gpus, model), hosts = self._classes[index]
        first = self._rows
        limits = [hosts * cpu, hosts * memory / 1024, hosts * gpus]
        limits += [hosts * (gpus // cut) for cut in self._cuts] + [0] * len(self._sizes)
        for limit in limits:
            self._highs.addRow(
                -self._inf, float(limit), 0, np.zeros(0, dtype=np.int32), np.zeros(0)
            )
        self._rows += len(limits)
        for number, shape in enumerate(self._shapes):
            fits = shape.cpu_milli <= cpu and shape.memory_mib <= memory and shape.gpus <= gpus
            if fits and (not shape.models or model in shape.models):
                self._add_task(first, number, shape)
        return first

    def _add_task(self, first: int, number: int, shape: Shape) -> None:
        column: dict[int, float] = {
            number: 1.0,
            first: shape.cpu_milli,
            first + 1: shape.memory_mib / 1024,
        }
        if shape.share:
            size = int(np.searchsorted(self._sizes, shape.gpu_milli))
            column[first + 3 + len(self._cuts) + size] = 1.0
        else:
            column[first + 2] = shape.gpus
            for row, cut in enumerate(self._cuts):
                column[first + 3 + row] = float(shape.gpus >= cut)
        self._costs.append(-shape.demand / MILLI)
        self._add_column(self._costs[-1], column)

    def _add_pattern(self, index: int, pattern: Ints) -> None:
        known = index, tuple(pattern.tolist())
        if known in self._patterns or not self._classes[index][0][2]:
            return
        self._patterns.add(known)
        first = self._first[index]
        column = {first + 2: 1.0}
        for size, count in enumerate(pattern):
            column[first + 3 + len(self._cuts) + size] = -float(count)
        self._add_column(0.0, column)

    def _add_column(self, cost: float, column: dict[int, float]) -> None:
        entries = {row: value for row, value in column.items() if value}
        rows = np.array(list(entries), dtype=np.int32)
        values = np.array(list(entries.values()), dtype=float)
        self._highs.addCol(cost, 0.0, self._inf, len(rows), rows, values)

    def _solve(self, least: Floats, arrived: Floats, counted: float) -> float:
        """The maximum over all patterns; ``counted`` is added to every task's GPUs."""
        if not self._costs:
            return 0.0
        rows = np.arange(len(arrived), dtype=np.int32)
        self._highs.changeRowsBounds(len(rows), rows, least, arrived)
        self._price(counted)
        while True:
            self._highs.run()
            status = self._highs.modelStatusToString(self._highs.getModelStatus())
            if status == "Infeasible":
                raise Infeasible("so much cannot be accepted")
            if status != "Optimal":
                raise RuntimeError(f"the linear program of the bounds ended as {status}")
            known = len(self._patterns)
            duals = np.array(self._highs.getSolution().row_dual)
            for index, first in enumerate(self._first):
                self._add_paying(index, duals[first:])
            if len(self._patterns) == known:
                return -float(self._highs.getInfo().objective_function_value)

    def _add_paying(self, index: int, duals: Floats) -> None:
        room = 3 + len(self._cuts)
        worth = -duals[room : room + len(self._sizes)]
        pattern = paying(self._sizes, worth, MILLI, -float(duals[2]) + TOLERANCE)
        if pattern is not None:
            self._add_pattern(index, pattern)

    def _price(self, counted: float) -> None:
        columns = np.arange(len(self._costs), dtype=np.int32)
        costs = np.array(self._costs) - counted
        self._highs.changeColsCost(len(columns), columns, costs)
