"""VMs with snapshots whose host changes: what is on shared storage stays, own files go along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fencing import SimFencing
from tests.simworld import SimWorld, host, vm
from tests.unit.engine.test_amnesia import snapshot as kept_ledger
from vgpumgr.engine.drift.drift_survey import survey
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.errors import Conflict, NotFound, VgpumgrError
from vgpumgr.model.host import Fence
from vgpumgr.model.vm import Affinity
from vgpumgr.model.vm_devices import DiskMode, DiskSpec

SHARED = (DiskSpec(pool="nas", size_bytes=1 << 20),)
OWN = (DiskSpec(size_bytes=1 << 20),)
POOLS = {"pools": ("default", "nas"), "shared_pools": ("nas",)}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4", **POOLS), host("T4", name="h2", **POOLS))
    made.engine.refresh()
    yield made
    made.close()


def with_snapshots(world: SimWorld, disks: tuple[DiskSpec, ...]) -> str:
    """A VM that is off, with a snapshot that its disks lie over and another; returns the host that
    it is not on.
    """
    world.apply(vm("a", disks=disks))
    world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()
    for name in ("s1", "s2"):
        world.engine.take_snapshot("a", name).raise_for_failure()
    world.engine.revert("a", "s1").raise_for_failure()
    return "h2" if world.ledger.vm("a").host == "h1" else "h1"


def test_on_shared_storage_snapshots_move_with_their_vm(world: SimWorld) -> None:
    other = with_snapshots(world, SHARED)
    world.engine.migrate("a", other).raise_for_failure()
    moved = world.ledger.vm("a")
    assert (moved.host, [each.name for each in moved.snapshots]) == (other, ["s1", "s2"])
    world.engine.revert("a", "s2").raise_for_failure()
    world.engine.delete_snapshot("a", "s1").raise_for_failure()
    world.engine.start(["a"]).raise_for_failure()
    assert survey(world.engine).drifts == ()
    world.delete("a")
    storage = world.hosts.open(world.ledger.host("h1")).storage
    assert storage.volumes("nas") == ()


def files(world: SimWorld, name: str) -> set[str]:
    storage = world.hosts.open(world.ledger.host(name)).storage
    return {each.name for each in storage.volumes("default") if each.name.startswith("a-")}


def test_on_a_hosts_own_storage_they_are_carried_with_a_vm_that_is_off(world: SimWorld) -> None:
    other = with_snapshots(world, OWN)
    home = world.ledger.vm("a").host
    before = files(world, home)
    world.engine.migrate("a", other).raise_for_failure()
    assert (files(world, home), files(world, other)) == (set(), before)
    world.engine.revert("a", "s2").raise_for_failure()
    world.engine.start(["a"]).raise_for_failure()
    assert survey(world.engine).drifts == ()
    with pytest.raises(Conflict) as caught:
        world.engine.migrate("a", home)
    assert "--cold" in caught.value.next
    world.engine.migrate("a", home, cold=True).raise_for_failure()
    world.engine.delete_snapshot("a", "s2").raise_for_failure()
    assert len(files(world, home)) == 2
    world.delete("a")
    assert not files(world, home) and not files(world, other)


def test_what_a_clone_is_laid_over_stays_where_it_is(world: SimWorld) -> None:
    other = with_snapshots(world, OWN)
    clone = world.engine.clone_spec(world.ledger.vm("a"), "b", "s1")
    world.apply(clone)
    with pytest.raises(Conflict) as caught:
        world.engine.migrate("a", other)
    assert "disks of b are laid over a snapshot of a" in caught.value.why
    loose = replace(clone, affinity=Affinity())
    world.engine.apply([loose])[1].raise_for_failure()
    with pytest.raises(NotFound):
        world.engine.migrate("b", other, cold=True)


def test_they_are_evacuated_from_shared_storage(world: SimWorld) -> None:
    other = with_snapshots(world, SHARED)
    home = world.ledger.vm("a").host
    fenced = replace(world.ledger.host(home), fence=Fence(off=("/bin/off",), status=("/bin/s",)))
    world.ledger.update_host(fenced)
    engine = replace(world.engine, fencing=SimFencing(world.sim))
    world.sim.inject(home, ["unreachable"])
    engine.evacuate(home)[1].raise_for_failure()
    after = world.ledger.vm("a")
    assert (after.host, after.snapshots.current) == (other, "s1")
    engine.revert("a", "s2").raise_for_failure()
    assert world.ledger.vm("a").snapshots.current == "s2"


def test_the_lost_file_of_a_snapshot_is_drift(world: SimWorld) -> None:
    with_snapshots(world, OWN)
    vm_ = world.ledger.vm("a")
    pool, name = vm_.snapshots.snapshots[1].volumes[0]
    world.hosts.open(world.ledger.host(vm_.host)).storage.delete(pool, name)
    [found] = survey(world.engine).drifts
    assert (found.kind, found.subject) == (DriftKind.VOLUME_MISSING, f"{pool}/{name}")
    with pytest.raises(VgpumgrError):
        world.engine.revert("a", "s2").raise_for_failure()
    assert world.ledger.vm("a").snapshots.current == "s1"


def test_an_older_ledger_takes_the_disks_as_they_are_now(world: SimWorld) -> None:
    """To go on with the files of before a snapshot would ruin both."""
    put_back = kept_ledger(world)
    world.apply(vm("a", disks=OWN))
    put_back_later = kept_ledger(world)
    for name in ("s1", "s2"):
        world.engine.take_snapshot("a", name).raise_for_failure()
    now = world.ledger.vm("a")
    for back, forget in ((put_back_later, ()), (put_back, ())):
        back()
        world.engine.refresh()
        world.engine.thaw(forget=forget)
        found = world.ledger.vm("a")
        assert found.volumes == now.volumes
        assert [each.volumes for each in found.snapshots] == [
            each.volumes for each in now.snapshots
        ]
        assert [each.name for each in found.snapshots] == ["found-1", "found-2"]
        assert survey(world.engine).drifts == ()
    world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()
    world.engine.delete_snapshot("a", "found-1").raise_for_failure()
    world.engine.revert("a", "found-2").raise_for_failure()
    world.delete("a")
    assert not [each for each in left(world) if each.startswith("a-")]


def test_the_image_below_all_snapshots_is_known_again(world: SimWorld) -> None:
    put_back = kept_ledger(world)
    over = DiskSpec(size_bytes=10 << 30, mode=DiskMode.OVERLAY, image="debian-12.qcow2")
    world.apply(vm("a", disks=(over,)))
    world.engine.take_snapshot("a", "s1").raise_for_failure()
    put_back()
    world.engine.refresh()
    world.engine.thaw()
    [disk] = world.ledger.vm("a").spec.disks
    assert (disk.mode, disk.image) == (DiskMode.OVERLAY, "debian-12.qcow2")


def left(world: SimWorld) -> list[str]:
    hosts = [world.hosts.open(each) for each in world.ledger.hosts()]
    return [each.name for host_ in hosts for each in host_.storage.volumes("default")]
