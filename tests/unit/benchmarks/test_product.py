"""The product's placement runs in the harness: nothing invalid, nothing refused that fits."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.placement.policies import ABLATIONS, OURS, make
from benchmarks.placement.product import fleet_of, vm_of
from benchmarks.placement.run import decide
from benchmarks.placement.sequences import Arrivals, history, inflation, turnover
from benchmarks.placement.traces import Host, Shape, Task
from tests.unit.benchmarks import fleets

POLICIES = (OURS, *ABLATIONS)


def world(seed: int) -> tuple[tuple[Host, ...], tuple[Task, ...]]:
    random = np.random.default_rng(seed)
    return fleets.hosts(random), fleets.tasks(random)


@pytest.mark.parametrize("name", POLICIES)
def test_places_what_fits_and_refuses_nothing_else(name: str) -> None:
    hosts, tasks = world(7)
    arrivals = inflation(hosts, tasks, 7)
    places, _ = decide(make(name, arrivals, tasks, history(tasks, 0.5, 7)), arrivals)
    assert fleets.refusals(arrivals, places)


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_given_back_can_be_taken_again(name: str) -> None:
    hosts, tasks = world(3)
    arrivals = turnover(hosts, tasks, 3, 1.2)
    places, _ = decide(make(name, arrivals, tasks, history(tasks, 0.5, 3)), arrivals)
    assert fleets.refusals(arrivals, places)


def test_a_plan_that_knows_nothing_is_no_plan() -> None:
    hosts, tasks = world(5)
    arrivals = inflation(hosts, tasks, 5)
    ours, bare = (run(name, arrivals, tasks) for name in (OURS, "vgpumgr-no-history"))
    assert ours == bare


def run(name: str, arrivals: Arrivals, tasks: tuple[Task, ...]) -> object:
    return decide(make(name, arrivals, tasks, ()), arrivals)[0]


def test_supply_and_requests_are_those_of_the_trace() -> None:
    share, whole = Shape(6000, 1024, 1, 460, ("A10", "T4")), Shape(8000, 2048, 4, 1000)
    fleet = fleet_of((Host("h", 64000, 4096, 2, "T4"),), (share, whole, Shape(1, 1, 0, 0)))
    (host,) = fleet.hosts
    assert (host.free_vcpus, host.free_memory_mib, len(host.gpus)) == (64000, 4096, 2)
    assert [offer.profile for offer in host.gpus[0].offers] == ["share-460", "passthrough"]
    assert host.gpus[0].offers is host.gpus[1].offers
    assert (vm_of(share).gpus[0].profile, vm_of(share).gpus[0].models) == (
        "share-460", ("A10", "T4")
    )  # fmt: skip
    assert (vm_of(whole).gpus[0].count, vm_of(Shape(1, 1, 0, 0)).gpus) == (4, ())
