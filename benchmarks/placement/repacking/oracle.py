"""The least number of moves by CP-SAT, from numbers alone; a process of its own.

CP-SAT and HiGHS cannot be imported into one process. JSON lines in, JSON lines out: ``Problem`` as
``problem`` writes it → ``{"status": …, "moves": …, "bound": …}``. It looks at where VMs end up
alone: what is on the way there can only make it more moves.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ortools.sat.python import cp_model

Spot = tuple[int, int, int]
"""A VM on a GPU, at a start (0 where slots are counted)."""


def solve(problem: dict[str, Any]) -> dict[str, Any]:
    """Fewest VMs that are elsewhere in the end, with ``empty`` GPUs empty.

    ``pooled``: VMs of one size are counted, not named. That is a bound, and far easier: it knows
    no hosts.
    """
    return _pooled(problem) if problem.get("pooled") else _named(problem)


def _pooled(problem: dict[str, Any]) -> dict[str, Any]:
    model = cp_model.CpModel()
    gpus, vms = problem["gpus"], problem["vms"]
    sizes = sorted({vm["units"] for vm in vms})
    empty = [model.new_bool_var("") for _ in gpus]
    left, come = defaultdict(list), defaultdict(list)
    for number, gpu in enumerate(gpus):
        taken, kinds = [], []
        for size in sizes:
            held = sum(vm["gpu"] == number and vm["units"] == size for vm in vms)
            most = gpu["units"] // size
            leaves, comes = model.new_int_var(0, held, ""), model.new_int_var(0, most, "")
            left[size].append(leaves)
            come[size].append(comes)
            after = held - leaves + comes
            model.add(after <= most * (1 - empty[number]))
            taken.append(size * after)
            if gpu["same_size"]:
                kinds.append(model.new_bool_var(""))
                model.add(after <= most * kinds[-1])
        model.add(sum(taken) <= gpu["units"])
        model.add(sum(kinds) <= 1)
    for size in sizes:
        model.add(sum(left[size]) == sum(come[size]))
    model.add(sum(empty) >= problem["empty"])
    moves = sum(each for found in left.values() for each in found)
    model.minimize(moves)
    solver, status = _solved(model, problem["seconds"])
    known = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    bound = round(solver.best_objective_bound) if known else None
    return {"status": solver.status_name(status).lower(), "moves": None, "bound": bound}


def _solved(model: cp_model.CpModel, seconds: float) -> tuple[cp_model.CpSolver, Any]:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    return solver, solver.solve(model)


def _named(problem: dict[str, Any]) -> dict[str, Any]:
    model = cp_model.CpModel()
    gpus, vms = problem["gpus"], problem["vms"]
    spots = {
        spot: model.new_bool_var("")
        for number, vm in enumerate(vms)
        for spot in _spots(number, vm, gpus)
    }
    empty = [model.new_bool_var("") for _ in gpus]
    by_vm, by_gpu = defaultdict(list), defaultdict(list)
    for spot, there in spots.items():
        by_vm[spot[0]].append(there)
        by_gpu[spot[1]].append((spot, there))
        model.add_implication(there, ~empty[spot[1]])
    for number in range(len(vms)):
        model.add_exactly_one(by_vm[number])
    for gpu, here in by_gpu.items():
        _on_gpu(model, gpus[gpu], vms, here)
    for host in range(len(problem["hosts"])):
        inside = [(vms[s[0]], each) for s, each in spots.items() if gpus[s[1]]["host"] == host]
        _on_host(model, problem["hosts"][host], inside)
    model.add(sum(empty) >= problem["empty"])
    stays = [spots[number, vm["gpu"], vm["at"]] for number, vm in enumerate(vms)]
    model.maximize(sum(stays))
    for each in stays:
        model.add_hint(each, 1)
    solver, status = _solved(model, problem["seconds"])
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return {
        "status": solver.status_name(status).lower(),
        "moves": len(vms) - round(solver.objective_value) if found else None,
        "bound": len(vms) - round(solver.best_objective_bound) if found else None,
    }


def _spots(number: int, vm: dict[str, Any], gpus: list[dict[str, Any]]) -> Iterable[Spot]:
    """Its own place, and every start on every GPU of the other hosts."""
    yield number, vm["gpu"], vm["at"]
    for gpu, each in enumerate(gpus):
        if each["host"] != gpus[vm["gpu"]]["host"]:
            for at in vm["starts"]:
                yield number, gpu, int(at)


def _on_gpu(
    model: cp_model.CpModel, gpu: dict[str, Any], vms: list[dict[str, Any]], found: list[Any]
) -> None:
    if gpu["slices"]:
        over = defaultdict(list)
        for (number, _, at), there in found:
            for slot in vms[number]["starts"][str(at)]:
                over[slot].append(there)
        for under in over.values():
            model.add_at_most_one(under)
        slices = sum(vms[spot[0]]["slices"] * there for spot, there in found)
        model.add(slices <= gpu["slices"])
        return
    model.add(sum(vms[spot[0]]["units"] * there for spot, there in found) <= gpu["units"])
    if gpu["same_size"]:
        sizes = {vms[spot[0]]["units"] for spot, _ in found}
        chosen = {size: model.new_bool_var("") for size in sizes}
        model.add_at_most_one(chosen.values())
        for spot, there in found:
            model.add_implication(there, chosen[vms[spot[0]]["units"]])


def _on_host(model: cp_model.CpModel, host: dict[str, Any], here: list[Any]) -> None:
    for what in ("vcpus", "memory_mib"):
        model.add(sum(vm[what] * there for vm, there in here) <= host[what])
    groups = defaultdict(list)
    for vm, there in here:
        if vm["group"]:
            groups[vm["group"]].append(there)
    for members in groups.values():
        model.add_at_most_one(members)


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(solve(json.loads(line))), flush=True)
