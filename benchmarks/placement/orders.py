"""Orders placed as a whole, beside an exact solver; JSON out.

python -m benchmarks.placement.orders --json OUT [--sizes 50 200] [--seeds 42-53] [--seconds 60]

An order of openb's default tasks, onto hosts with just as many GPUs as it asks for. ``chance``: as
drawn; ``largest-first``: sorted; ``evenly``: the order of ``bulk_order.py``; ``place``: the
product's (evenly, then the largest first, whichever places more); ``together``: the same with the
extra ``solver``, which never gives GPU up for more VMs. ``bound``: the most VMs, by a CP-SAT
program of the benchmark's own, on the same numbers; it gives up GPU as it likes. ``optimum`` where
it is proven. All answers of the product are checked by it in that none may exceed the bound.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.placement.bulk_order import place_bulk
from benchmarks.placement.document import text
from benchmarks.placement.joint.draw import Order, draw
from benchmarks.placement.options import count, seeds, typed
from benchmarks.placement.solver import Solver
from benchmarks.placement.summary import DATA
from benchmarks.placement.traces import MILLI, TraceError, read_hosts, read_tasks
from vgpumgr.app.solver_process import solving
from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement import Placer, place

LEAST = PlacementPolicy.CAPACITY_FIRST
WAYS = ("chance", "largest-first", "evenly", "place", "together")

Row = dict[str, Any]


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status: 2 where a file or a word cannot be used; what was measured is kept."""
    given = _parser().parse_args(argv)
    rows: list[Row] = []
    try:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        for row in _each(given.sizes, given.seeds, given.seconds):
            rows.append(row)
            found = {"summary": list(summary(rows)), "orders": rows}
            given.json.write_text(text(found), encoding="utf-8")
    except (TraceError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found["summary"], indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="python -m benchmarks.placement.orders",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument("--json", type=Path, required=True, metavar="OUT")
    words.add_argument("--sizes", nargs="+", type=typed(count), default=[50, 200])
    words.add_argument("--seeds", type=typed(seeds), default=tuple(range(42, 54)))
    words.add_argument("--seconds", type=float, default=60.0, help="for CP-SAT, per order (60)")
    return words


def _each(sizes: Sequence[int], numbers: Sequence[int], seconds: float) -> Iterator[Row]:
    hosts = read_hosts(DATA / "openb_node_list_gpu_node.csv.gz")
    tasks = read_tasks(DATA / "openb_pod_list_default.csv.gz")
    with Solver("benchmarks.placement.joint.oracle") as solver:
        for size in sizes:
            for seed in numbers:
                row = _measured(draw(hosts, tasks, size, seed), seed, solver, seconds)
                print(json.dumps(row), file=sys.stderr, flush=True)
                yield row


def summary(rows: Sequence[Row]) -> Iterator[Row]:
    """By size: how many VMs each way places, and how many more the solver knows of."""
    for size in sorted({row["size"] for row in rows}):
        of = [row for row in rows if row["size"] == size]
        proven = [row for row in of if row["optimum"] is not None]
        yield {
            "size": size,
            "orders": len(of),
            **{f"{way}_pct": _mean(100 * row["placed"][way] / size for row in of) for way in WAYS},
            **{f"{way}_gpu_pct": _mean(row["gpu_pct"][way] for row in of) for way in WAYS},
            "bound_pct": _mean(100 * row["bound"] / size for row in of),
            "optimum_proven": len(proven),
            **{f"{way}_below_optimum": _below(proven, way) for way in ("place", "together")},
            "together_placed_more": sum(_more(row, "together", "place") for row in of),
            "solver_placed_more": sum(row["solver"] > row["placed"]["together"] for row in of),
            "solver_placed_fewer": sum(row["solver"] < row["placed"]["together"] for row in of),
            "place_cpu_s": _mean(row["place_cpu_s"] for row in of),
            "together_s": _mean(row["together_s"] for row in of),
            "solver_s": _mean(row["solver_s"] for row in of),
        }


def _below(proven: Sequence[Row], way: str) -> dict[int, int]:
    """How many orders are so many VMs below the optimum."""
    found = Counter(row["optimum"] - row["placed"][way] for row in proven)
    return dict(sorted(found.items()))


def _more(row: Row, way: str, other: str) -> bool:
    return bool(row["placed"][way] > row["placed"][other])


def _measured(order: Order, seed: int, solver: Solver, seconds: float) -> Row:
    begin = time.process_time()
    placed = place(order.fleet, order.requests, LEAST, mix=order.mix)
    took = time.process_time() - begin
    begin = time.perf_counter()
    together = place(order.fleet, order.requests, LEAST, mix=order.mix, solver=solving)
    together_s = time.perf_counter() - begin
    ways = {
        "chance": _in_turn(order, order.requests),
        "largest-first": _in_turn(order, _sorted(order)),
        "evenly": place_bulk(_placer(order), order.requests, explain=False),
        "place": placed,
        "together": together,
    }
    begin = time.perf_counter()
    answer = solver.ask(_problem(order, seconds))
    count = {name: sum(isinstance(each, Placed) for each in got) for name, got in ways.items()}
    if max(count.values()) > answer["bound"]:
        raise AssertionError(f"more was placed than fits: {count}, {answer}")
    return {
        "size": len(order.requests),
        "seed": seed,
        "hosts": len(order.hosts),
        "gpus": order.gpus,
        "placed": count,
        "gpu_pct": {name: _gpu_pct(order, got) for name, got in ways.items()},
        "optimum": answer["placed"] if answer["status"] == "optimal" else None,
        "solver": answer["placed"] or 0,
        "bound": answer["bound"],
        "place_cpu_s": round(took, 3),
        "together_s": round(together_s, 1),
        "solver_s": round(time.perf_counter() - begin, 1),
    }


def _placer(order: Order) -> Placer:
    return Placer(order.fleet, LEAST, mix=order.mix)


def _in_turn(order: Order, requests: Sequence[VmSpec]) -> list[Decision]:
    placer, found = _placer(order), []
    for request in requests:
        decision = placer.decide(request, explain=False)
        if isinstance(decision, Placed):
            placer.commit(decision)
        found.append(decision)
    return found


def _sorted(order: Order) -> list[VmSpec]:
    def size(number: int) -> tuple[int, int]:
        shape = order.tasks[number].shape
        return -shape.demand, -shape.cpu_milli

    return [order.requests[number] for number in sorted(range(len(order.tasks)), key=size)]


def _gpu_pct(order: Order, decisions: Sequence[Decision]) -> float:
    asked = {
        vm.name: task.shape.demand for vm, task in zip(order.requests, order.tasks, strict=True)
    }
    held = sum(asked[each.request.name] for each in decisions if isinstance(each, Placed))
    return round(100 * held / (order.gpus * MILLI), 2)


def _problem(order: Order, seconds: float) -> dict[str, Any]:
    shapes = Counter(task.shape for task in order.tasks)
    return {
        "seconds": seconds,
        "workers": 2,
        "hosts": [[h.cpu_milli, h.memory_mib, h.gpus, h.model] for h in order.hosts],
        "shapes": [
            [s.cpu_milli, s.memory_mib, s.gpus, s.gpu_milli, s.models, number]
            for s, number in shapes.items()
        ],
    }


def _mean(values: Any) -> float:
    found = list(values)
    return round(sum(found) / len(found), 2)


if __name__ == "__main__":
    sys.exit(run())
