"""The most GPU memory that any partitioning of empty GPUs gives to a demand, by CP-SAT.

Answers lines of JSON with lines of JSON. A problem has ``boards`` (per board a count of GPUs and
its ``patterns``, each the parts that one GPU makes together), the ``demand`` by part and the
``weight`` of each part.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ortools.sat.python import cp_model

_SECONDS = 20.0


def optimum(problem: dict[str, Any]) -> dict[str, Any]:
    """The weight of what is served, and whether it is proven to be the most."""
    model = cp_model.CpModel()
    made: dict[str, list[Any]] = {part: [] for part in problem["demand"]}
    for name, board in problem["boards"].items():
        used = []
        for number, pattern in enumerate(board["patterns"]):
            count = model.new_int_var(0, board["count"], f"{name} {number}")
            used.append(count)
            for part, parts in pattern.items():
                made[part].append(parts * count)
        model.add(sum(used) <= board["count"])
    served = {part: model.new_int_var(0, n, part) for part, n in problem["demand"].items()}
    for part, count in served.items():
        model.add(count <= sum(made[part]))
    model.maximize(sum(problem["weight"][part] * count for part, count in served.items()))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = _SECONDS
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    return {"most": int(solver.best_objective_bound), "proven": status == cp_model.OPTIMAL}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(optimum(json.loads(line))), flush=True)
