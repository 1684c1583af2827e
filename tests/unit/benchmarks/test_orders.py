"""The bound beside which orders are placed: what it says of orders that can be counted by hand."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from benchmarks.placement.joint.draw import draw
from benchmarks.placement.solver import Solver
from benchmarks.placement.summary import DATA
from benchmarks.placement.traces import MILLI, read_hosts, read_tasks

ORACLE = "benchmarks.placement.joint.oracle"


def asked(hosts: list[list[object]], *shapes: list[object]) -> dict[str, object]:
    return {"seconds": 60.0, "workers": 1, "hosts": hosts, "shapes": list(shapes)}


@pytest.mark.skipif(find_spec("ortools") is None, reason="the extra solver is not installed")
def test_the_most_that_fits_is_known() -> None:
    host = [8, 100, 2, "T4"]
    problems = (
        (asked([host], [1, 1, 1, 600, [], 3]), 2),  # 400 thousandths left of each GPU
        (asked([host], [1, 1, 1, 500, [], 3], [1, 1, 1, MILLI, [], 1]), 3),  # two shares on one GPU
        (asked([host], [1, 1, 2, MILLI, [], 1], [1, 1, 1, 100, [], 5]), 5),
        (asked([host], [5, 1, 1, 100, [], 2]), 1),  # vCPUs
        (asked([host], [1, 60, 0, 0, [], 2]), 1),  # memory, without a GPU
        (asked([host, [8, 100, 2, "A40"]], [1, 1, 1, MILLI, ["A40"], 3]), 2),
    )
    with Solver(ORACLE) as solver:
        for problem, most in problems:
            answer = solver.ask(problem)
            assert (answer["status"], answer["placed"], answer["bound"]) == ("optimal", most, most)


def test_an_order_asks_for_no_more_gpus_than_its_hosts_have_and_is_drawn_alike_again() -> None:
    hosts = read_hosts(DATA / "openb_node_list_gpu_node.csv.gz")
    tasks = read_tasks(DATA / "openb_pod_list_default.csv.gz")
    order = draw(hosts, tasks, 50, 42)
    wanted = sum(task.shape.demand for task in order.tasks)
    without_the_last = order.gpus - order.hosts[-1].gpus
    assert without_the_last * MILLI < wanted <= order.gpus * MILLI
    assert draw(hosts, tasks, 50, 42).requests == order.requests
    assert draw(hosts, tasks, 50, 43).requests != order.requests
