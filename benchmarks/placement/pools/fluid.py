"""What no policy can exceed in the long run: requests as fluids, GPUs cut in any proportion.

Of each part no more can be held than is offered, and all that is held must pack into the GPUs, on
average: both hold for averages over time of whatever a policy does. Needs highspy.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def fluid(sets: Floats | Ints, bins: float, sizes: Ints, offered: Floats) -> float:
    """The most GPU that can be held, as a percentage of what is offered.

    ``sets`` are what fills one of ``bins``, ``offered`` how many of each part would be held if all
    were accepted.
    """
    highs = program(sets, bins, sizes, offered)
    highs.run()
    held = -float(highs.getInfo().objective_function_value)
    return 100 * held / float(offered @ sizes)


def program(sets: Floats | Ints, bins: float, sizes: Ints, offered: Floats) -> Any:
    """Columns: bins by set, then what is held by part; the most of ``sizes`` is its optimum."""
    highspy: Any = import_module("highspy")
    highs = highspy.Highs()
    highs.setOptionValue(*("output_flag", False))
    parts = range(len(sizes))
    for _ in sets:
        highs.addCol(0.0, 0.0, highspy.kHighsInf, 0, _indices(()), np.zeros(0))
    for part in parts:
        highs.addCol(-float(sizes[part]), 0.0, float(offered[part]), 0, _indices(()), np.zeros(0))
    count = len(sets)
    highs.addRow(0.0, bins, count, _indices(range(count)), np.ones(count))
    for part in parts:
        holding = [number for number, each in enumerate(sets) if each[part]]
        values = [*(float(sets[number][part]) for number in holding), -1.0]
        indices = _indices((*holding, count + part))
        highs.addRow(0.0, highspy.kHighsInf, len(indices), indices, np.array(values))
    return highs


def _indices(numbers: Sequence[int]) -> NDArray[np.int32]:
    return np.array(list(numbers), dtype=np.int32)
