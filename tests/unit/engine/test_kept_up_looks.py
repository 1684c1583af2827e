"""Hosts that a controller keeps looking at: chosen among by its looks, probed where it counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.world import World, vm
from vgpumgr.model.errors import NoPlacement
from vgpumgr.store.ledger.look_schedule import KEPT_UP_S


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(
        tmp_path,
        *(FakeHost(f"h{n}", gpus=[t4(n)], parents=[t4_parent(n)]) for n in range(3)),
    )
    made.engine.refresh()
    keep_up(made)
    yield made
    made.close()


def keep_up(world: World) -> None:
    """What a controller does that has just looked at all of them."""
    due = world.clock.now() + 20
    world.ledger.hosts_due(dict.fromkeys(world.hosts, due))
    for host in world.hosts.values():
        host.calls.clear()


def probed(world: World) -> set[str]:
    return {name for name, host in world.hosts.items() if ("probe", ()) in host.calls}


def occupy(world: World, name: str) -> None:
    """Somebody else takes the whole GPU."""
    host = world.hosts[name]
    host.foreign_mdev(
        f"00000000-0000-4000-8000-00000000000{name[1]}", host.parents[0].name, "nvidia-234"
    )


def test_the_host_that_is_chosen_is_probed_and_no_other(world: World) -> None:
    world.engine.apply([vm("a", "T4-4Q")])
    assert probed(world) == {world.vm("a").host}


def test_what_the_chosen_host_shows_now_decides(world: World) -> None:
    first = world.engine.plan([vm("a", "T4-4Q")]).actions[0].host
    keep_up(world)
    occupy(world, first)
    world.engine.apply([vm("a", "T4-4Q")])
    assert world.vm("a").host != first
    assert probed(world) == {first, world.vm("a").host}


def test_a_chosen_host_that_is_gone_is_told_and_another_is_taken(world: World) -> None:
    first = world.engine.plan([vm("a", "T4-4Q")]).actions[0].host
    keep_up(world)
    world.hosts[first].down = True
    planned, _ = world.engine.apply([vm("a", "T4-4Q")])
    assert world.vm("a").host != first
    assert any(first in line for line in planned.warnings)


def test_before_it_is_said_that_there_is_no_room_all_are_probed(world: World) -> None:
    for name in world.hosts:
        occupy(world, name)
    world.engine.refresh()
    keep_up(world)
    with pytest.raises(NoPlacement):
        world.engine.apply([vm("a", "T4-4Q")])
    assert probed(world) == set(world.hosts)
    keep_up(world)
    world.hosts["h1"].mdevs.clear()
    world.engine.apply([vm("a", "T4-4Q")])
    assert world.vm("a").host == "h1"


def test_looks_that_nobody_keeps_up_are_made_anew(world: World) -> None:
    world.clock.time += KEPT_UP_S + 21
    world.engine.apply([vm("a", "T4-4Q")])
    assert probed(world) == set(world.hosts)
