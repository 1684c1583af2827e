"""A host that hangs must not hold up what has nothing to do with it: it is not even asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.world import World, vm
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.thread_workers import ThreadWorkers
from vgpumgr.model.errors import DeadlineExceeded
from vgpumgr.model.host import HostFacts
from vgpumgr.model.ports import WaitLimits
from vgpumgr.model.vm import Affinity


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(
        tmp_path,
        FakeHost("h1"),
        FakeHost("h2", gpus=[t4(1)], parents=[t4_parent(1)]),
        FakeHost("h3", gpus=[], parents=[]),
    )
    made.engine.refresh_all()
    yield made
    made.close()


def asked(world: World) -> list[str]:
    """The hosts that were probed since this was asked last."""
    found = [name for name, host in world.hosts.items() if ("probe", ()) in host.calls]
    for host in world.hosts.values():
        host.calls.clear()
    return found


def test_a_vm_that_names_its_host_asks_no_other(world: World) -> None:
    asked(world)
    on_h2 = vm("web", affinity=Affinity(hosts=("h2",)))
    world.engine.apply([on_h2])[1].raise_for_failure()
    assert asked(world) == ["h2"]
    world.engine.apply([on_h2])
    assert asked(world) == ["h2"]


def test_a_vm_that_has_its_place_asks_no_other(world: World) -> None:
    world.engine.apply([vm("web")])[1].raise_for_failure()
    asked(world)
    world.engine.apply([vm("web")])
    assert asked(world) == [world.vm("web").host]


def test_one_that_may_go_anywhere_asks_all(world: World) -> None:
    world.engine.apply([vm("web")])[1].raise_for_failure()
    asked(world)
    world.engine.plan([vm("web"), vm("other")])
    assert asked(world) == ["h1", "h2", "h3"]


@pytest.fixture
def door(world: World) -> Iterator[threading.Event]:
    """Until it is opened a look at h2 does not return, deadlines or not."""
    made, probe = threading.Event(), world.hosts["h2"].probe

    def hang() -> HostFacts:
        assert made.wait(30)
        return replace(probe(), cpus=99)

    world.hosts["h2"].probe = hang  # type: ignore[method-assign]
    yield made
    made.set()


def threaded(world: World, **waits: float) -> Engine:
    return replace(world.engine, lanes=ThreadWorkers(), waits=WaitLimits(**waits))


def test_a_look_that_never_returns_is_given_up(world: World, door: threading.Event) -> None:
    seen = threaded(world, look_s=0.2).refresh()
    assert set(seen.facts) == {"h1", "h3"}
    assert isinstance(seen.failed["h2"], DeadlineExceeded)
    assert world.ledger.host("h2").last_error.startswith("h2 did not answer within")


def test_what_a_look_shows_after_it_was_left_is_not_kept(
    world: World, door: threading.Event
) -> None:
    engine = threaded(world, least_s=0.1, times=1.0)
    planned = engine.plan([vm("web")])
    assert [action.host for action in planned.actions] == ["h3"], "it needs no GPU"
    door.set()
    assert isinstance(engine.lanes, ThreadWorkers)
    while engine.lanes.hanging():
        time.sleep(0.01)
    host = world.ledger.host("h2")
    assert host.last_error.startswith("did not answer within")
    assert host.facts is not None and host.facts.cpus != 99


def test_who_fits_nowhere_else_waits_for_the_late_answer(
    world: World, door: threading.Event
) -> None:
    engine = threaded(world, least_s=0.1, times=1.0)
    threading.Timer(1.0, door.set).start()
    (action,) = engine.plan([vm("web", vcpus=200)]).actions
    assert (action.host, world.ledger.host("h2").last_error) == ("h2", "")
