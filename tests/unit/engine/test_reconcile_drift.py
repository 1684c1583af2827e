"""Differences are told once, in time, and never because something could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.serving import INTERVAL_S, Served, serving
from tests.world import World, effects, vm
from vgpumgr.engine.controller.controller_events import EventKind
from vgpumgr.model.domain import DomainState
from vgpumgr.model.host import UnknownPart


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, FakeHost("h1"), FakeHost("h2", gpus=[t4(1)], parents=[t4_parent(1)]))
    made.engine.apply([vm("a", "T4-4Q")])
    yield made
    made.close()


@pytest.fixture
def served(world: World) -> Served:
    made = serving(world)
    made.serve(2)
    assert made.kinds() == []
    return made


def at(world: World) -> FakeHost:
    """The host of the VM."""
    return world.hosts[world.vm("a").host]


def stop_by_hand(world: World) -> None:
    facts = at(world).domains_by_name["a"]
    at(world).domains_by_name["a"] = replace(facts, state=DomainState.SHUTOFF)


def start_by_hand(world: World) -> None:
    facts = at(world).domains_by_name["a"]
    at(world).domains_by_name["a"] = replace(facts, state=DomainState.RUNNING)


def test_a_difference_is_told_once_within_the_interval_and_its_end_once(
    world: World, served: Served
) -> None:
    calls = effects(at(world))
    stop_by_hand(world)
    assert [each.kind for each in served.serve(INTERVAL_S + 1)] == [EventKind.DRIFT]
    assert served.serve(150, beat_s=5) == []
    start_by_hand(world)
    (over,) = served.serve(INTERVAL_S + 1)
    assert (over.kind, over.drift, over.vm) == (EventKind.DRIFT_ENDED, "power", "a")
    assert effects(at(world)) == calls


def test_what_could_not_be_read_is_not_over(world: World, served: Served) -> None:
    stop_by_hand(world)
    served.serve(INTERVAL_S + 1)
    at(world).unknown = (UnknownPart(part="libvirt", why="it hangs"),)
    assert served.serve(100) == []
    assert served.state(at(world).name) == "partly-read"
    at(world).unknown = ()
    assert served.serve(100) == []


def test_a_host_that_does_not_answer_is_told_once_and_so_is_its_return(
    world: World, served: Served
) -> None:
    at(world).down = True
    (gone,) = served.serve(150, beat_s=3)
    assert (gone.kind, gone.host) == (EventKind.HOST_UNREACHABLE, at(world).name)
    assert world.ledger.host(at(world).name).last_error
    at(world).down = False
    (back,) = served.serve(INTERVAL_S + 1)
    assert (back.kind, back.host) == (EventKind.HOST_REACHED, at(world).name)


def test_a_host_is_looked_at_again_soon_then_ever_more_rarely(world: World, served: Served) -> None:
    at(world).down = True
    served.serve(INTERVAL_S)
    name, seen = at(world).name, []
    start = world.clock.monotonic()
    while world.clock.monotonic() < start + 200:
        served.serve(1)
        failures = next(each.failures for each in served.status.hosts if each.name == name)
        seen.append(failures)
    assert 9 <= seen[-1] - seen[0] <= 20


def test_a_foreign_domain_on_the_gpu_is_told(world: World, served: Served) -> None:
    (uuid,) = at(world).mdevs
    at(world).foreign_domain("stranger", devices=[uuid])
    told = served.serve(INTERVAL_S + 1)
    assert {each.drift for each in told} == {"device-taken"}


def test_a_vm_that_somebody_works_on_is_not_compared(world: World, served: Served) -> None:
    """Between the look at the host and the comparison a command stops the VM."""
    other = world.engine_over(world.open())
    host, looks = at(world), []

    def stop_meanwhile(name: str) -> None:
        if name == "live_xml" and not looks:
            looks.append(name)
            other.stop_vms(["a"], force=True, timeout_s=1).raise_for_failure()

    host.on_call = stop_meanwhile
    served.serve(INTERVAL_S + 1)
    assert served.kinds() == []
    assert looks


def test_every_host_has_its_turn_once_per_interval(world: World, served: Served) -> None:
    for host in world.hosts.values():
        host.calls.clear()
    world.clock.time += 1
    probes: dict[str, list[float]] = {name: [] for name in world.hosts}
    for name, host in world.hosts.items():
        _count(world, host, probes[name])
    served.serve(300)
    for times in probes.values():
        gaps = [after - before for before, after in pairwise(times)]
        assert max(gaps) <= INTERVAL_S + 1
        assert min(gaps) >= INTERVAL_S * 0.8 - 1


def _count(world: World, host: FakeHost, times: list[float]) -> None:
    probe = host.probe

    def counted() -> object:
        times.append(world.clock.monotonic())
        return probe()

    host.probe = counted  # type: ignore[method-assign,assignment]


def test_a_new_host_has_its_turn_at_once_and_one_that_left_none(
    world: World, served: Served
) -> None:
    left = next(name for name in world.hosts if name != world.vm("a").host)
    world.ledger.remove_host(left)
    world.hosts[left].calls.clear()
    served.serve(100)
    assert world.hosts[left].calls == []
    assert served.kinds() == []


def test_one_turn_of_every_host(world: World) -> None:
    stop_by_hand(world)
    served = serving(world)
    status = served.controller.once()
    assert {each.name: each.drifts for each in status.hosts}[world.vm("a").host] == 1
    assert [each.state for each in status.hosts] == ["ok", "ok"]


def test_a_clock_that_was_ahead_delays_no_host(world: World, served: Served) -> None:
    world.clock.time += 1e6
    served.serve(INTERVAL_S + 1)
    world.clock.time -= 1e6
    calls = len(at(world).calls)
    served.serve(INTERVAL_S + 1)
    assert len(at(world).calls) > calls
