"""VMs on Ceph and on LVM's thin pools: what their hosts' storage lets them do, and what not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr import domainxml
from vgpumgr.engine.drift.drift_survey import survey
from vgpumgr.engine.images.image_copies import obstacle
from vgpumgr.engine.storage.storage_drivers import create_volume
from vgpumgr.model.domain import DiskType, VolumePlan
from vgpumgr.model.errors import Conflict, NoPlacement
from vgpumgr.model.vm_devices import CloudInit, DiskMode, DiskSpec

POOLS = {
    "pools": ("default", "ceph", "fast"),
    "ceph_pools": ("ceph",),
    "lvm_pools": ("fast",),
}
CEPH = DiskSpec(pool="ceph", size_bytes=4 << 20, format="raw")
LVM = replace(CEPH, pool="fast")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4", **POOLS), host("T4", name="h2", **POOLS))
    made.engine.refresh()
    yield made
    made.close()


def other(world: SimWorld) -> str:
    return "h2" if world.ledger.vm("a").host == "h1" else "h1"


def stop(world: SimWorld) -> None:
    world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()


def test_a_disk_of_ceph_stays_where_it_is_in_a_move(world: SimWorld) -> None:
    world.apply(vm("a", disks=(CEPH,)))
    stop(world)
    world.engine.take_snapshot("a", "s1").raise_for_failure()
    there = other(world)
    storage = world.hosts.open(world.ledger.host(there)).storage
    before = storage.volumes("ceph")
    world.engine.migrate("a", there).raise_for_failure()
    assert world.ledger.vm("a").host == there
    assert storage.volumes("ceph") == before and len(before) == 2
    world.engine.start(["a"]).raise_for_failure()
    assert survey(world.engine).drifts == ()
    xml = world.hosts.open(world.ledger.host(there)).domains.xml("a")
    [disk] = domainxml.disks(xml)
    assert (disk.type, disk.format) == (DiskType.NETWORK, "raw")
    assert disk.server.secret and "usage" not in disk.server.secret
    world.delete("a")
    assert storage.volumes("ceph") == ()


@pytest.mark.parametrize("running", [True, False])
def test_a_disk_of_lvm_does_not_move(world: SimWorld, running: bool) -> None:
    world.apply(vm("a", disks=(LVM,)))
    if not running:
        stop(world)
    before = {name: list(_volumes(world, name)) for name in ("h1", "h2")}
    with pytest.raises(Conflict) as caught:
        world.engine.migrate("a", other(world))
    assert "in a pool of kind logical: only files are copied" in caught.value.why
    assert {name: list(_volumes(world, name)) for name in ("h1", "h2")} == before


def _volumes(world: SimWorld, name: str) -> Iterator[str]:
    storage = world.hosts.open(world.ledger.host(name)).storage
    yield from (each.name for each in storage.volumes("fast"))


@pytest.mark.parametrize("pool", ["ceph", "fast"])
def test_files_are_refused_where_volumes_are_raw(world: SimWorld, pool: str) -> None:
    for wrong in (
        vm("a", disks=(DiskSpec(pool=pool, size_bytes=4 << 20),)),
        vm("a", disks=(CEPH,), cloud_init=CloudInit(user_data="#cloud-config\n", pool=pool)),
    ):
        with pytest.raises(NoPlacement, match="a cannot be placed") as caught:
            world.engine.apply([wrong])
        assert f"storage pool {pool} of h" in caught.value.why
    assert world.ledger.vms() == ()
    assert f"storage pool {pool} is of kind" in obstacle(world.ledger.host("h1"), pool, 1)


def test_an_image_is_a_volume_of_the_pool(world: SimWorld) -> None:
    missing = replace(CEPH, image="golden", image_format="raw", mode=DiskMode.OVERLAY)
    with pytest.raises(Exception, match="disk image golden is not in pool ceph"):
        world.engine.apply([vm("a", disks=(missing,))])
    assert world.ledger.vms() == ()


@pytest.mark.parametrize("pool", ["ceph", "fast"])
def test_a_volume_of_another_pool_is_not_copied_into_one_that_clones(
    world: SimWorld, pool: str
) -> None:
    plan = VolumePlan(
        pool=pool,
        name="x",
        capacity_bytes=1,
        format="raw",
        mode=DiskMode.COPY,
        source="y",
        source_pool="default",
    )
    facts = world.ledger.host("h1").facts
    assert facts is not None
    with pytest.raises(Conflict, match=f"no disk in storage pool {pool} is made from default/y"):
        create_volume(plan, facts)
    assert create_volume(replace(plan, source_pool=""), facts).summary == f"create volume {pool}/x"
