"""Supplies of unchanged hosts are the very same objects; what is kept of them is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4
from tests.world import World, vm
from vgpumgr.engine.inventory.host_supply import SupplyMemory, build_fleet
from vgpumgr.model.identity_memo import IdentityMemo
from vgpumgr.model.supply import Fleet, HostSupply


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    cards = (t4(uuid=f"GPU-h{n}", serial=f"h{n}") for n in (1, 2, 3))
    made = World(tmp_path, *(FakeHost(name=f"h{n}", gpus=[c]) for n, c in enumerate(cards, 1)))
    yield made
    made.close()


def fleet(world: World) -> Fleet:
    return build_fleet(world.engine.view())


def same(one: Fleet, other: Fleet) -> list[str]:
    """The hosts whose supply is the very same."""
    pairs = zip(one.hosts, other.hosts, strict=True)
    return [a.name for a, b in pairs if a is b]


def test_what_nobody_changed_is_the_very_same_after_every_read(world: World) -> None:
    world.engine.refresh()
    before = fleet(world)
    assert same(before, fleet(world)) == ["h1", "h2", "h3"]
    world.engine.refresh()
    assert same(before, fleet(world)) == ["h1", "h2", "h3"]


def test_a_vm_makes_the_supply_of_its_host_another(world: World) -> None:
    world.engine.refresh()
    before = fleet(world)
    world.engine.apply([vm("a", "T4-4Q")])[1].raise_for_failure()
    at = world.vm("a").host
    assert same(before, fleet(world)) == [name for name in ("h1", "h2", "h3") if name != at]


def test_alike_gpus_share_offers_and_room(world: World) -> None:
    world.engine.refresh()
    gpus = [gpu for host in fleet(world).hosts for gpu in host.gpus]
    assert len({gpu.id for gpu in gpus}) == len(gpus) > 1
    for part in ("offers", "free_slots", "available", "could"):
        assert len({id(getattr(gpu, part)) for gpu in gpus}) == 1, part


def test_of_each_host_the_last_two_are_kept() -> None:
    memory = SupplyMemory()
    seen = [object() for _ in range(9)]
    made = [HostSupply(name="h", free_vcpus=n, free_memory_mib=0, numa=(), gpus=()) for n in (1, 2)]
    assert memory.of("h", (seen[0],), lambda: made[0]) is made[0]
    assert memory.of("h", (seen[1],), lambda: made[1]) is made[1]
    assert memory.of("h", (seen[0],), lambda: made[1]) is made[0]
    assert memory.of("h", (seen[0], seen[1]), lambda: made[1]) is made[1]
    for each in seen:
        memory.of("h", (each,), lambda: made[0])
    assert len(memory) == 2


def test_results_belong_to_the_very_objects_and_equal_values() -> None:
    memo = IdentityMemo[object](most=4)
    part, like = ["x"], ["x"]
    first = memo.of((part,), 1, object)
    assert memo.of((part,), 1, object) is first
    assert memo.of((like,), 1, object) is not first
    assert memo.of((part,), 2, object) is not first


def test_those_used_last_are_kept_and_less_than_twice_as_many() -> None:
    memo = IdentityMemo[object](most=4)
    often = object()
    first = memo.of((often,), 0, object)
    for _ in range(100):
        memo.of((object(),), 0, object)
        assert memo.of((often,), 0, object) is first
        assert len(memo) <= 8
