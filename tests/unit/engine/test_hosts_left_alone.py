"""A host that hangs must not hold up what has nothing to do with it: it is not even asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.world import World, vm
from vgpumgr.model.vm import Affinity


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, FakeHost("h1"), FakeHost("h2", gpus=[t4(1)], parents=[t4_parent(1)]))
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
    assert asked(world) == ["h1", "h2"]
