"""Orphaned allocations and quarantined GPUs: marked, never freed, and in the trail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.world import World, vm
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.errors import Conflict, NotFound, StaleGeneration
from vgpumgr.model.gpu import GpuState

ACTIVE, ORPHANED = AllocationState.ACTIVE, AllocationState.ORPHANED


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two VMs on one GPU."""
    found = World(tmp_path)
    found.engine.apply([vm("a", "T4-4Q"), vm("b", "T4-4Q")])[1].raise_for_failure()
    return found


def states(world: World) -> list[AllocationState]:
    return [each.state for each in world.ledger.allocations()]


def test_an_orphan_keeps_its_units_and_comes_back(world: World) -> None:
    free, ids = world.free_slots(), [each.id for each in world.ledger.allocations()]
    world.ledger.mark(ids[:1], ORPHANED)
    world.ledger.mark(ids[:1], ORPHANED)
    assert sorted(states(world)) == [ACTIVE, ORPHANED]
    assert world.free_slots() == free
    world.ledger.mark(ids, ACTIVE)
    assert states(world) == [ACTIVE, ACTIVE]
    told = [each.event for each in world.ledger.audit(event="allocation.")]
    assert told.count("allocation.orphaned") == 1, "what changes nothing leaves no record"
    world.close()


def test_what_is_not_held_any_more_is_not_marked(world: World) -> None:
    ids = [each.id for each in world.ledger.allocations()]
    world.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    with pytest.raises(StaleGeneration):
        world.ledger.mark(ids, ORPHANED)
    assert states(world) == [ACTIVE], "all of them, or none"
    with pytest.raises(ValueError, match="not released"):
        world.ledger.mark(ids, AllocationState.RELEASED)
    world.close()


def test_a_quarantine_lasts_over_probes_until_it_is_lifted(world: World) -> None:
    [gpu] = world.ledger.gpus()
    with pytest.raises(Conflict):
        world.ledger.lift(gpu.id)
    world.ledger.quarantine(gpu.id, "Xid 79")
    world.engine.refresh()
    [now] = world.ledger.gpus()
    assert (now.state, now.state_why) == (GpuState.QUARANTINED, "Xid 79")
    assert now.generation > gpu.generation, "a plan made before does not count any more"
    world.ledger.lift(gpu.id)
    [now] = world.ledger.gpus()
    assert (now.state, now.state_why) == (GpuState.HEALTHY, "")
    events = [each.event for each in world.ledger.audit(event="gpu.")]
    assert events[:2] == ["gpu.healthy", "gpu.quarantined"]
    with pytest.raises(NotFound):
        world.ledger.quarantine("gpu-none", "?")
    world.close()


def test_deleted_vms_are_known_and_others_are_not(world: World) -> None:
    ids = {each.name: each.id for each in world.ledger.vms()}
    world.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    assert world.ledger.deleted_vms({*ids.values(), "never"}) == {ids["a"]}
    world.close()
