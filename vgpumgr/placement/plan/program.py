"""A linear program in pieces, and HiGHS that solves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def solver_is_there() -> bool:
    """Whether highspy can be imported."""
    return find_spec("highspy") is not None


@dataclass(frozen=True, slots=True)
class Solution:
    """``values`` by column, ``duals`` by row, of a program that was minimised."""

    values: Floats
    duals: Floats


class Program:
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
