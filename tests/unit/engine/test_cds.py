"""CDs in drives of VMs: images that are placed by, booted from, changed, moved with, and kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from tests.unit.images.files import cd, qcow2
from vgpumgr import domainxml
from vgpumgr.engine.images.image_copies import ImageImport
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict, NoPlacement, NotFound, UsageError
from vgpumgr.model.vm import Affinity, VmSpec
from vgpumgr.model.vm_devices import CdSpec, DiskSpec

DISKS = (DiskSpec(size_bytes=1 << 20),)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host(), host(name="h2"))
    made.engine.refresh()
    yield made
    made.close()


def bring(world: SimWorld, folder: Path, name: str, *hosts: str, format: str = "iso") -> None:
    path = folder / f"{name}.{format}"
    if not path.exists():  # one that is made again has other times in it
        path.write_bytes(cd() if format == "iso" else qcow2())
    request = ImageImport(path=str(path), name=name, format=format, hosts=hosts)
    world.engine.import_image(request).outcome.raise_for_failure()


def desk(*cds: CdSpec, **fields: object) -> VmSpec:
    return vm("desk", disks=DISKS, cds=cds, **fields)


def booted(world: SimWorld, name: str = "h1") -> list[str]:
    """The files of the VM's drives, in the order in which the guest tries them."""
    found = domainxml.disks(world.sim.hosts[name].domains.xml("desk"))
    tried = sorted((each for each in found if each.boot_order), key=lambda each: each.boot_order)
    return [each.path.rpartition("/")[2].partition("-")[0] for each in tried]


def test_a_vm_goes_where_its_cd_is_and_boots_from_it_before_its_disks(
    world: SimWorld, tmp_path: Path
) -> None:
    bring(world, tmp_path, "debian", "h2")
    bring(world, tmp_path, "tools", "h2")
    world.apply(desk(CdSpec(image="tools@1"), CdSpec(image="debian@1", boot=True)))
    assert world.ledger.vm("desk").host == "h2"
    assert booted(world, "h2") == ["debian@1", "desk", "tools@1"]
    with pytest.raises(NoPlacement):
        world.apply(vm("b", cds=(CdSpec(image="debian@1"),), affinity=Affinity(hosts=("h1",))))


def test_only_a_cd_goes_into_a_drive_and_no_disk_is_made_of_one(
    world: SimWorld, tmp_path: Path
) -> None:
    bring(world, tmp_path, "cad", format="qcow2")
    with pytest.raises(UsageError, match="cad@1 is no CD"):
        world.apply(desk(CdSpec(image="cad@1")))
    with pytest.raises((NoPlacement, NotFound)):
        world.apply(desk(CdSpec(image="nowhere.iso")))
    with pytest.raises(NotFound) as refused:
        world.apply(desk(CdSpec(image="cad@9")))
    assert refused.value.next.startswith("vgpumgr image list")
    with pytest.raises(UsageError, match="is qcow2, not raw") as refused_disk:
        world.apply(desk(CdSpec(image="debian-12.qcow2")))
    assert "a CD is an image of format iso" in refused_disk.value.next
    assert world.ledger.vms() == ()


def test_a_cd_is_changed_by_a_restart_and_what_lies_in_a_drive_is_not_deleted(
    world: SimWorld, tmp_path: Path
) -> None:
    bring(world, tmp_path, "debian", "h1")
    bring(world, tmp_path, "tools", "h2")
    world.apply(desk(CdSpec(image="debian@1", boot=True)))
    with pytest.raises(Conflict, match="needs a stop"):
        world.apply(desk())
    with pytest.raises(NotFound, match="tools@1"):
        world.engine.apply([desk(CdSpec(image="tools@1"))], restart=True)
    assert booted(world) == ["debian@1", "desk"]
    kept = world.engine.retire_image("debian@1", delete_copies=True)
    assert "desk" in str(kept)
    world.engine.apply([desk()], restart=True)[1].raise_for_failure()
    assert booted(world) == []
    assert world.sim.hosts["h1"].domains.look("desk").state is DomainState.RUNNING  # type: ignore[union-attr]
    world.engine.retire_image("debian@1", delete_copies=True).outcome.raise_for_failure()


def test_a_vm_moves_to_hosts_that_have_its_cd(world: SimWorld, tmp_path: Path) -> None:
    bring(world, tmp_path, "debian", "h1")
    world.apply(desk(CdSpec(image="debian@1")))
    with pytest.raises(NoPlacement, match="cannot be moved to h2"):
        world.engine.migrate("desk", "h2", cold=True).raise_for_failure()
    assert world.ledger.vm("desk").host == "h1"
    bring(world, tmp_path, "debian", "h2")
    world.engine.migrate("desk", "h2", cold=True).raise_for_failure()
    assert booted(world, "h2") == ["desk", "debian@1"]
    assert len(world.ledger.vm("desk").spec.cds) == 1
