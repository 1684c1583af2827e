"""Images on hosts: imported, used by name and version, retired; killed at every step on the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import SimWorld, host, vm
from tests.unit.images.files import VIRTUAL, qcow2
from vgpumgr.engine.images.image_copies import ImageImport
from vgpumgr.engine.images.image_import import ImportReport
from vgpumgr.model.desktop import PoolRecord
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.errors import (
    BadImage,
    Conflict,
    HostRefused,
    Interrupted,
    InUse,
    NoPlacement,
    NotFound,
)
from vgpumgr.model.image import CopyState, ImageRecord
from vgpumgr.model.vm import Affinity, VmSpec
from vgpumgr.model.vm_devices import DiskMode, DiskSpec
from vgpumgr.spec import load

OVER = DiskSpec(mode=DiskMode.OVERLAY, image="cad@1")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host(), host(name="h2"), host(name="h3", pools=("fast",)))
    made.engine.refresh()
    yield made
    made.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cad.qcow2"
    path.write_bytes(qcow2())
    return path


def request(file: Path, *hosts: str, **fields: str) -> ImageImport:
    return ImageImport(path=str(file), name="cad", hosts=hosts, **fields)  # type: ignore[arg-type]


def bring(world: SimWorld, file: Path, *hosts: str, **fields: str) -> ImportReport:
    done = world.engine.import_image(request(file, *hosts, **fields))
    done.outcome.raise_for_failure()
    return done


def desk(name: str = "desk", *hosts: str, **fields: object) -> VmSpec:
    return vm(name, disks=(OVER,), affinity=Affinity(hosts=hosts), **fields)


def volumes(world: SimWorld, name: str) -> list[str]:
    found = world.sim.hosts[name].storage.volumes("default")
    return [each.name for each in found if each.name.startswith("cad@")]


def image(world: SimWorld) -> ImageRecord:
    return world.ledger.images()[-1]


def test_a_file_becomes_a_version_on_every_host_that_can_have_it(
    world: SimWorld, file: Path
) -> None:
    done = bring(world, file)
    assert (done.image.reference, done.image.virtual_bytes) == ("cad@1", VIRTUAL)
    assert {each.host: each.state for each in done.image.copies} == {
        "h1": CopyState.THERE,
        "h2": CopyState.THERE,
    }
    assert "no storage pool default" in done.left_out["h3"]
    assert volumes(world, "h1") == volumes(world, "h2") == [done.image.volume]
    again = bring(world, file, "h1")
    assert (again.image, again.outcome.operation) == (done.image, "")


def test_the_same_bytes_are_the_same_version_and_others_are_the_next(
    world: SimWorld, file: Path
) -> None:
    bring(world, file, "h1")
    assert bring(world, file, "h2").image.version == "1"
    file.write_bytes(qcow2(virtual=VIRTUAL // 2))
    assert bring(world, file, "h1").image.version == "2"
    with pytest.raises(Conflict, match="cad@1 is another file"):
        bring(world, file, "h1", version="1")
    assert bring(world, file, "h1", version="24h2").image.reference == "cad@24h2"


def test_what_cannot_take_a_copy_is_refused_when_it_is_named(world: SimWorld, file: Path) -> None:
    with pytest.raises(NotFound):
        bring(world, file, "h7")
    with pytest.raises(Conflict) as refused:
        bring(world, file, "h3")
    assert "no storage pool default" in refused.value.why
    with pytest.raises(BadImage):
        bring(world, file, format="raw")
    assert world.ledger.images() == ()


def test_vms_go_where_the_image_is(world: SimWorld, file: Path) -> None:
    bring(world, file, "h2")
    world.apply(desk("desk-1"), desk("desk-2"))
    assert {each.host for each in world.ledger.vms()} == {"h2"}
    assert world.engine.plan([desk("desk-1")]).changes == 0
    with pytest.raises(NoPlacement) as refused:
        world.apply(desk("desk-3", "h1"))
    assert "h1 has no copy of image cad@1" in str(refused.value.why)
    [volume, _] = [
        each
        for each in world.sim.hosts["h2"].storage.volumes("default")
        if each.name.startswith("desk-")
    ]
    assert volume.backing_path is not None
    assert volume.backing_path.endswith(image(world).volume)
    bring(world, file, "h1")
    world.apply(desk("desk-3", "h1"))


def test_plain_volumes_go_on_working(world: SimWorld, file: Path) -> None:
    bring(world, file, "h2")
    plain = replace(OVER, image="debian-12.qcow2")
    world.apply(vm("plain", disks=(plain,), affinity=Affinity(hosts=("h1",))))
    with pytest.raises(NotFound, match="cad@9"):
        world.apply(vm("none", disks=(replace(OVER, image="cad@9"),)))


def test_a_retired_image_is_used_by_those_that_have_it_alone(world: SimWorld, file: Path) -> None:
    bring(world, file, "h1", "h2")
    world.apply(desk("desk", "h1"))
    done = world.engine.retire_image("cad@1", delete_copies=True)
    assert done.kept == {"h1": ("desk",)}
    assert (volumes(world, "h1"), volumes(world, "h2")) == ([image(world).volume], [])
    world.apply(desk("desk", "h1"))
    with pytest.raises(Conflict, match="cad@1 is retired"):
        world.apply(desk("other", "h1"))
    with pytest.raises(Conflict, match="retired"):
        bring(world, file, "h2", version="1")
    assert bring(world, file, "h2").image.version == "2"
    world.delete("desk")
    done = world.engine.retire_image("cad@1", delete_copies=True)
    assert (done.image.copies, volumes(world, "h1")) == ((), [])


def test_a_copy_stays_under_a_disk_that_was_kept(world: SimWorld, file: Path) -> None:
    bring(world, file, "h1")
    world.apply(desk())
    world.engine.delete(["desk"], keep_disks=True, force=True).raise_for_failure()
    done = world.engine.retire_image("cad@1", delete_copies=True)
    with pytest.raises(InUse, match="is in use"):
        done.outcome.raise_for_failure()
    assert [each.state for each in image(world).copies] == [CopyState.THERE]
    assert volumes(world, "h1") == [image(world).volume]


def test_what_arrives_changed_is_no_copy(world: SimWorld, file: Path) -> None:
    storage, storage_class = world.sim.hosts["h1"].storage, type(world.sim.hosts["h1"].storage)
    original = storage_class.fill

    def damaged(pool: str, volume: str, length: int, data: bytes) -> None:
        original(storage, pool, volume, length, data[:-1] + b"?")

    storage.fill = damaged  # type: ignore[method-assign]
    done = world.engine.import_image(request(file, "h1"))
    with pytest.raises(HostRefused, match="not what was sent"):
        done.outcome.raise_for_failure()
    assert (image(world).copies, volumes(world, "h1")) == ((), [])
    del storage.fill
    bring(world, file, "h1")


def test_a_volume_of_that_name_with_other_bytes_is_left_alone(world: SimWorld, file: Path) -> None:
    bring(world, file, "h1")
    name = image(world).volume
    world.sim.hosts["h1"].storage.upload("default", name, b"somebody wrote here")
    world.ledger.remove_host("h1")
    world.ledger.add_host(replace(world.ledger.host("h2"), name="h1", address="sim://h1"))
    done = world.engine.import_image(request(file, "h1"))
    with pytest.raises(Conflict, match="exists on h1"):
        done.outcome.raise_for_failure()
    assert volumes(world, "h1") == [name]


def test_a_copy_that_somebody_deleted_comes_anew(world: SimWorld, file: Path) -> None:
    bring(world, file, "h1", "h2")
    world.sim.hosts["h1"].storage.delete("default", image(world).volume)
    done = bring(world, file)
    assert [each.host for each in done.outcome.done] == ["h1"]
    assert volumes(world, "h1") == [image(world).volume]
    assert len(image(world).copies) == 2


def test_a_pool_keeps_its_image(world: SimWorld, file: Path) -> None:
    bring(world, file, "h1")
    document = (
        "apiVersion: vgpumgr/v1\nkind: Pool\nname: cad\nimage: cad@1\n"
        "gpus: [{profile: T4-4Q}]\nentitlement: {users: [ann]}\nmin: 1\nmax: 2\n"
    )
    [spec] = load(document, "pool.yaml").pools
    world.ledger.put_pool(PoolRecord(id="p-1", spec=spec, created_at=1.0))
    with pytest.raises(InUse, match="cad@1 is in use") as refused:
        world.engine.retire_image("cad@1", delete_copies=True)
    assert "pool push-image cad" in refused.value.next
    assert image(world).retired_at is None


def test_a_whole_copy_from_before_is_taken_as_it_is(world: SimWorld, file: Path) -> None:
    bring(world, file, "h1")
    record = world.ledger.host("h1")
    world.ledger.remove_host("h1")
    world.ledger.add_host(replace(record, generation=1))
    world.sim.inject("h1", ["refuse", "storage.fill", "EIO", "1"])
    bring(world, file, "h1")


def test_a_host_that_refuses_gets_no_copy_and_keeps_none_from_another(
    world: SimWorld, file: Path
) -> None:
    world.sim.inject("h1", ["refuse", "storage.fill", "EIO", "1"])
    done = world.engine.import_image(request(file, "h1", "h2"))
    assert [each.host for each in done.image.copies] == ["h2"]
    assert volumes(world, "h1") == []


@pytest.mark.parametrize(("at", "after"), [(1, True), (2, True), (3, False), (3, True), (4, True)])
def test_an_import_that_was_killed_is_finished_by_the_same_command(
    world: SimWorld, file: Path, at: int, after: bool
) -> None:
    engine = replace(world.engine, ledger=Mortal(world.ledger, at, after=after))
    with pytest.raises(Killed):
        engine.import_image(request(file, "h1"))
    world.restart()
    ready = [pool for each in world.ledger.images() for pool in each.pools("h1")]
    assert bool(ready) == ((at, after) >= (3, True))
    assert bring(world, file, "h1").image.version == "1"
    assert volumes(world, "h1") == [image(world).volume]
    assert [each.state for each in image(world).copies] == [CopyState.THERE]


def test_an_interrupted_import_waits_and_goes_on(world: SimWorld, file: Path) -> None:
    storage = world.sim.hosts["h1"].storage
    create = storage.create

    def interrupting(pool: str, xml: str, **named: Any) -> VolumeFacts:
        world.engine.stop.set()
        return create(pool, xml, **named)

    storage.create = interrupting  # type: ignore[method-assign]
    done = world.engine.import_image(request(file, "h1"))
    with pytest.raises(Interrupted, match="interrupted"):
        done.outcome.raise_for_failure()
    assert image(world).pools("h1") == ()
    del storage.create
    world.engine.stop.clear()
    assert bring(world, file, "h1").image.pools("h1") == ("default",)


def test_a_killed_import_is_taken_back_where_its_file_is_gone(world: SimWorld, file: Path) -> None:
    engine = replace(world.engine, ledger=Mortal(world.ledger, 2, after=True))
    with pytest.raises(Killed):
        engine.import_image(request(file, "h1"))
    world.restart()
    [operation] = world.ledger.operations(open_only=True)
    os.truncate(file, 100)
    world.engine.resume(operation.id)
    assert (image(world).copies, volumes(world, "h1")) == ((), [])
    assert world.ledger.operations(open_only=True) == ()
