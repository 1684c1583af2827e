"""A GPU instance that several vGPUs share goes with the last VM it was made for, and no sooner;
one that a layout made stays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr import catalog
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal

BOARD = "RTX-PRO-6000-BSE"
INSTANCE = "1g.24gb+gfx"


def a_shared_profile() -> str:
    """A type of which several live in one instance."""
    board = catalog.board(BOARD)
    assert board is not None
    return next(t.profile for t in catalog.mig_types(board, INSTANCE) if t.max_per_gi >= 3)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host(BOARD))
    yield made
    made.close()


def instances(world: SimWorld) -> int:
    found = world.gpu().mig
    assert found is not None
    assert found.instances is not None
    return len(found.instances)


@pytest.mark.parametrize("order", list(permutations(("a", "b", "c"))), ids="".join)
def test_one_made_for_vms_goes_with_the_last_of_them(
    world: SimWorld, order: tuple[str, ...]
) -> None:
    world.cut(GpuLayout(mig=True, vfs=VFS_MAX))
    for name in ("a", "b", "c"):
        world.apply(vm(name, a_shared_profile()))
    assert instances(world) == 1
    for name in order[:2]:
        world.delete(name)
        assert instances(world) == 1
        assert not world.engine.layout_plan(None).gpus, "made for a VM is no drift"
    world.delete(order[2])
    assert instances(world) == 0
    assert {claim.wanted["kind"] for claim in world.facts().claims} == {"layout"}


def test_one_of_a_layout_stays_whoever_comes_and_goes(world: SimWorld) -> None:
    declared = GpuLayout(mig=True, vfs=VFS_MAX, instances=(InstanceGoal(profile=INSTANCE),))
    world.cut(declared)
    for name in ("a", "b"):
        world.apply(vm(name, a_shared_profile()))
    assert {a.instance.make for a in world.ledger.allocations() if a.instance} == {False}
    for name in ("a", "b"):
        world.delete(name)
        assert instances(world) == 1
    assert not world.engine.layout_plan(None).gpus
