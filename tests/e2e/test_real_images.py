"""Images on a real host: real sshd, real libvirtd, the real helper."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nshosts
from tests.unit.images.files import qcow2
from vgpumgr import domainxml
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.engine.steps.image_file import Digest, opened
from vgpumgr.engine.steps.image_steps import DeleteImage, ImportImage
from vgpumgr.engine.steps.step import StepSurroundings
from vgpumgr.engine.steps.volume_steps import CreateVolume, file_digest
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import BadImage, InUse
from vgpumgr.model.host import HostRecord
from vgpumgr.model.operation import Differs, InState
from vgpumgr.model.ports import Host

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]


@pytest.fixture(scope="module")
def first() -> Iterator[Host]:
    if why := nshosts.missing():
        pytest.skip(why)
    fleet = nshosts.NamespaceFleet(1)
    hosts = RealHosts(ssh_config=fleet.ssh_config, identity=lambda: ("e2e", 1))
    [host] = fleet.hosts
    record = HostRecord(name=host.name, address=host.address("root"))
    record = real_hosts.pin_host_key(hosts, record, host.fingerprint, lambda _name, _key: None)
    found = hosts.open(record)
    found.installation.install()
    yield found
    hosts.close()
    fleet.close()


def around() -> StepSurroundings:
    return StepSurroundings(SystemClock(), threading.Event(), lambda _: None)


def step(path: Path, volume: str) -> ImportImage:
    digest = Digest()
    with opened(str(path)) as file:
        for piece in file.pieces():
            digest.update(piece)
    return ImportImage(
        pool="default",
        volume=volume,
        source=str(path),
        file_bytes=digest.bytes,
        sha256=digest.sha256,
    )


def test_an_image_arrives_whole_is_laid_over_and_goes(first: Host, tmp_path: Path) -> None:
    path = tmp_path / "cad.qcow2"
    path.write_bytes(qcow2())
    bring = step(path, "cad@1-0a1b2c3d.qcow2")
    assert isinstance(bring.look(first), Differs)
    bring.within(first, around())
    assert isinstance(bring.look(first), InState)
    seen = first.storage.look("default", bring.volume)
    assert seen is not None
    pool = os.path.dirname(seen.path)
    inspected = first.helper.call("image_inspect", {"path": seen.path, "pool_path": pool})
    assert (inspected["format"], inspected["virtual_bytes"]) == ("qcow2", 10 << 20)

    plan = VolumePlan(
        pool="default", name="desk.qcow2", capacity_bytes=20 << 20, format="qcow2", mode="overlay",
        source=bring.volume, source_path=seen.path, source_format="qcow2",
    )  # fmt: skip
    first.storage.create("default", domainxml.volume(plan))
    leave = DeleteImage(pool="default", volume=bring.volume)
    with pytest.raises(InUse, match="in use"):
        leave.act(first, around().clock)
    first.storage.delete("default", "desk.qcow2")
    leave.act(first, around().clock)
    assert isinstance(leave.look(first), InState)


def test_holes_stay_holes_and_half_a_copy_goes(first: Host, tmp_path: Path) -> None:
    path = tmp_path / "sparse.raw"
    with path.open("wb") as file:
        file.write(b"a" * 70_000)
        file.seek(48 << 20)
        file.write(b"b" * 70_000)
        file.truncate(96 << 20)
    bring = step(path, "sparse@1-0a1b2c3d.raw")
    bring.within(first, around())
    assert isinstance(bring.look(first), InState)
    first.storage.volumes("default")  # as its files are now
    xml = first.storage.xml("default", bring.volume)
    assert int(str(untrusted(xml, "volume").findtext("allocation"))) < 8 << 20
    bring.undo(first)
    assert first.storage.look("default", bring.volume) is None

    with path.open("r+b") as file:
        file.write(b"c")
    with pytest.raises(BadImage, match="changed since its import began"):
        bring.within(first, around())
    bring.undo(first)
    assert first.storage.look("default", bring.volume) is None


@pytest.mark.parametrize("kind", ["qcow2", "raw"])
def test_a_copy_of_an_image_is_a_disk_of_its_size_and_data(
    first: Host, tmp_path: Path, kind: str
) -> None:
    """libvirt made the image's volume as a raw file: the copy is of the disk in it, not of that."""
    path = tmp_path / f"cad.{kind}"
    if kind == "qcow2":
        path.write_bytes(qcow2())
    else:
        path.write_bytes(b"x" * (10 << 20))
    bring = step(path, f"cad@2-0a1b2c3d.{kind}")
    bring.within(first, around())
    plan = VolumePlan(
        pool="default", name=f"seat.{kind}", capacity_bytes=0, format=kind, mode="copy",
        source=bring.volume, source_format=kind,
    )  # fmt: skip
    make = CreateVolume(plan=plan)
    make.act(first, around().clock)
    seen = first.storage.look("default", plan.name)
    assert seen is not None
    pool = os.path.dirname(seen.path)
    inspected = first.helper.call("image_inspect", {"path": seen.path, "pool_path": pool})
    assert (inspected["format"], inspected["virtual_bytes"]) == (kind, 10 << 20)
    if kind == "raw":
        assert file_digest(first, seen.path) == bring.sha256
    make.undo(first)
    DeleteImage(pool="default", volume=bring.volume).act(first, around().clock)
