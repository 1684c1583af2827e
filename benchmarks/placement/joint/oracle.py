"""The most VMs of an order that fit, by CP-SAT; a process of its own, JSON lines in and out.

``{"seconds", "hosts": [[vCPUs, MiB, GPUs, model], …], "shapes": [[vCPUs, MiB, GPUs, thousandths,
[models], how many], …]}`` → ``{"status", "placed", "bound"}``. Host by host, GPU by GPU; VMs of one
shape are counted, not named.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from typing import Any

from ortools.sat.python import cp_model

MILLI = 1000


def solve(problem: dict[str, Any]) -> dict[str, Any]:
    """The optimum, or what is known of it when the time is over."""
    model = cp_model.CpModel()
    taken: list[list[Any]] = [[] for _ in problem["shapes"]]
    for host in problem["hosts"]:
        _on_host(model, host, problem["shapes"], taken)
    for shape, held in zip(problem["shapes"], taken, strict=True):
        model.add(sum(held) <= shape[5])
    model.maximize(sum(each for held in taken for each in held))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = problem["seconds"]
    solver.parameters.num_workers = problem["workers"]
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return {
        "status": solver.status_name(status).lower(),
        "placed": round(solver.objective_value) if found else None,
        "bound": int(solver.best_objective_bound + 1e-6),
    }


def _on_host(
    model: cp_model.CpModel, host: list[Any], shapes: list[list[Any]], taken: list[list[Any]]
) -> None:
    cpu, memory, gpus, name = host
    cut = [model.new_bool_var("") for _ in range(gpus)]  # GPUs that hold shares
    for first, second in pairwise(cut):
        model.add_implication(second, first)
    held, whole = [], []
    room: list[list[Any]] = [[] for _ in range(gpus)]
    for shape, into in zip(shapes, taken, strict=True):
        vcpus, mib, parts, milli, models, count = shape
        if parts > gpus or (models and name not in models):
            continue
        if parts and milli < MILLI:
            here = [model.new_int_var(0, min(count, MILLI // milli), "") for _ in range(gpus)]
            for number, each in enumerate(here):
                room[number].append(milli * each)
            total: Any = sum(here)
        else:
            total = model.new_int_var(0, count, "")
            whole.append(parts * total)
        held.append((vcpus, mib, total))
        into.append(total)
    for number, each in enumerate(cut):
        model.add(sum(room[number]) <= MILLI * each)
    model.add(sum(cut) + sum(whole) <= gpus)
    model.add(sum(vcpus * total for vcpus, _, total in held) <= cpu)
    model.add(sum(mib * total for _, mib, total in held) <= memory)


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(solve(json.loads(line))), flush=True)
