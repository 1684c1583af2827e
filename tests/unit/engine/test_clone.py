"""A VM like another, with copies of its disks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.drift.drift_survey import survey
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.model.errors import Conflict, NoPlacement, VgpumgrError
from vgpumgr.model.vm_devices import CloudInit, DiskSpec, NicSpec

DISKS = (DiskSpec(size_bytes=1 << 20), DiskSpec(size_bytes=2 << 20, format="raw"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4"), host("T4", name="h2"))
    made.engine.refresh()
    seed = CloudInit(user_data="#cloud-config\n")
    nics = (NicSpec(network="default"),)
    made.apply(vm("a", "T4-8Q", disks=DISKS, cloud_init=seed, nics=nics, labels={"team": "cad"}))
    yield made
    made.close()


def clone(world: SimWorld, name: str) -> Outcome:
    spec = world.engine.clone_spec(world.ledger.vm("a"), name)
    return world.engine.apply([spec])[1]


def stop(world: SimWorld) -> None:
    world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()


def test_all_but_its_identity_is_the_same(world: SimWorld) -> None:
    source = world.ledger.vm("a")
    storage = world.hosts.open(world.ledger.host(source.host)).storage
    stop(world)
    clone(world, "b").raise_for_failure()
    made = world.ledger.vm("b")
    assert (made.host, made.spec.labels, made.running) == (source.host, {"team": "cad"}, True)
    assert made.spec.gpus == source.spec.gpus and made.spec.cloud_init == source.spec.cloud_init
    assert set(made.volumes).isdisjoint(source.volumes) and len(made.volumes) == 3
    found = [storage.look(pool, name) for pool, name in made.volumes[:2]]
    sizes = [(each.capacity_bytes, each.format) for each in found if each]
    assert sizes == [(1 << 20, "qcow2"), (2 << 20, "raw")]
    world.delete("a")
    assert storage.look(*made.volumes[1]) is not None
    assert survey(world.engine).drifts == ()


def test_a_disk_that_is_written_to_is_not_copied(world: SimWorld) -> None:
    with pytest.raises(Conflict, match="a is running: its disks are being written to") as caught:
        clone(world, "b")
    assert caught.value.next.startswith("vgpumgr vm stop a, then the same command")
    assert [each.name for each in world.ledger.vms()] == ["a"]


def test_where_its_host_is_full_there_is_none(world: SimWorld) -> None:
    stop(world)
    clone(world, "b").raise_for_failure()
    with pytest.raises(NoPlacement):
        clone(world, "c")


def test_a_copy_that_is_refused_leaves_nothing(world: SimWorld) -> None:
    stop(world)
    home = world.ledger.vm("a").host
    storage = world.hosts.open(world.ledger.host(home)).storage
    before = storage.volumes("default")
    world.sim.inject(home, ["refuse", "storage.create", "ENOSPC", "9"])
    with pytest.raises(VgpumgrError):
        clone(world, "b").raise_for_failure()
    assert storage.volumes("default") == before
    assert [each.name for each in world.ledger.vms()] == ["a"]
