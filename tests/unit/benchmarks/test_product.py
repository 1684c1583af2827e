"""The product's placement runs in the harness: nothing invalid, nothing refused that fits."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.placement.checker import replay
from benchmarks.placement.planned_anew import what_is_left
from benchmarks.placement.policies import BULK, PRODUCT, make
from benchmarks.placement.run import decide
from benchmarks.placement.sequences import Arrivals, history, inflation, turnover, windowed
from benchmarks.placement.supply import fleet_of, vm_of
from benchmarks.placement.traces import Host, Shape, Task
from tests.unit.benchmarks import fleets
from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Placer
from vgpumgr.placement.resources.host_state import FleetState


def world(seed: int) -> tuple[tuple[Host, ...], tuple[Task, ...]]:
    random = np.random.default_rng(seed)
    return fleets.hosts(random), fleets.tasks(random)


@pytest.mark.parametrize("name", PRODUCT)
def test_places_what_fits_and_refuses_nothing_else(name: str) -> None:
    hosts, tasks = world(7)
    arrivals = inflation(hosts, tasks, 7)
    places, _ = decide(make(name, arrivals, tasks, history(tasks, 0.5, 7)), arrivals)
    assert fleets.refusals(arrivals, places)


@pytest.mark.parametrize("name", PRODUCT)
def test_what_is_given_back_can_be_taken_again(name: str) -> None:
    hosts, tasks = world(3)
    arrivals = turnover(hosts, tasks, 3, 1.2)
    places, _ = decide(make(name, arrivals, tasks, history(tasks, 0.5, 3)), arrivals)
    assert fleets.refusals(arrivals, places)


def test_an_order_is_decided_whole_and_answered_as_it_stands() -> None:
    hosts, tasks = world(5)
    arrivals = windowed(inflation(hosts, tasks, 5), 10)
    places, took = decide(make(BULK, arrivals, tasks, ()), arrivals)
    assert list(places) == list(range(len(arrivals.kinds)))
    assert len(took) == len(places)
    last = list(replay(arrivals, places))[-1]
    assert 0.5 * arrivals.capacity < last.held <= arrivals.capacity


def test_nothing_is_learned_without_learning() -> None:
    random = np.random.default_rng(5)
    hosts, tasks = fleets.hosts(random, 20), fleets.tasks(random)
    arrivals = inflation(hosts, tasks, 5)
    bare = run("vgpumgr-no-mix", arrivals, tasks)
    assert run("vgpumgr-no-learning", arrivals, tasks) == bare
    assert run("vgpumgr", arrivals, tasks) != bare


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


def test_what_is_left_is_what_the_placer_has_left() -> None:
    hosts, tasks = world(11)
    arrivals = inflation(hosts, tasks, 11)
    fleet = fleet_of(arrivals.hosts, arrivals.shapes)
    placer, held = Placer(fleet, PlacementPolicy.CAPACITY_FIRST), []
    for kind in arrivals.kinds.tolist():
        decision = placer.decide(vm_of(arrivals.shapes[kind]), explain=False)
        if isinstance(decision, Placed):
            placer.commit(decision)
            held.append(decision)
    again = FleetState(what_is_left(fleet, held))
    assert held
    for left, host in zip(again.hosts, placer.state.hosts, strict=True):
        assert (left.free_vcpus, left.memory_mib) == (host.free_vcpus, host.memory_mib)
        assert [gpu.free_units for gpu in left.gpus] == [gpu.free_units for gpu in host.gpus]
        assert [gpu.whole for gpu in left.gpus] == [gpu.whole for gpu in host.gpus]
