"""The storage of a simulated host: volumes, images, uploads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.sim.values import POOL, SIM, inspect, make_volume
from vgpumgr import domainxml
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict, HostRefused, NotFound
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimFleet
from vgpumgr.sim.in_process import InProcessHosts


@pytest.fixture
def host() -> Iterator[Host]:
    hosts = InProcessHosts(SimFleet(name="f", hosts=(SIM,)))
    yield hosts.open(HostRecord(name="h1", address="sim://h1"))
    hosts.close()


def test_the_images_are_there_and_can_be_inspected(host: Host) -> None:
    found = host.storage.look("default", "debian-12.qcow2")
    assert found is not None
    assert (found.path, found.capacity_bytes) == (f"{POOL}/debian-12.qcow2", 10 << 30)
    assert inspect(host, "debian-12.qcow2") == {
        "format": "qcow2",
        "virtual_bytes": 10 << 30,
        "backing": None,
        "backing_format": None,
        "data_file": None,
        "encrypted": False,
    }


def test_an_overlay_names_its_backing_file(host: Host) -> None:
    backing = f"{POOL}/debian-12.qcow2"
    make_volume(host, "over.qcow2", mode="overlay", source_path=backing, source_format="qcow2")
    assert inspect(host, "over.qcow2")["backing"] == backing


def test_an_overlay_of_nothing_is_refused(host: Host) -> None:
    with pytest.raises(HostRefused) as caught:
        make_volume(
            host,
            "over.qcow2",
            mode="overlay",
            source_path=f"{POOL}/none.qcow2",
            source_format="qcow2",
        )
    assert "No such file" in caught.value.why
    assert host.storage.look("default", "over.qcow2") is None


def test_what_is_uploaded_is_read_and_copied(host: Host) -> None:
    make_volume(host, "seed.iso", format="raw", capacity_bytes=4096)
    host.storage.upload("default", "seed.iso", b"QED\0")
    with pytest.raises(HostRefused, match="cannot be used"):
        inspect(host, "seed.iso")
    plan = VolumePlan(pool="default", name="copy.iso", capacity_bytes=4096, format="raw")
    host.storage.create("default", domainxml.volume(plan), copy_from="seed.iso")
    with pytest.raises(HostRefused, match="cannot be used"):
        inspect(host, "copy.iso")


def test_volumes_that_are_not_there(host: Host) -> None:
    assert host.storage.look("default", "none") is None
    host.storage.delete("default", "none")
    with pytest.raises(NotFound):
        host.storage.look("nopool", "none")
    with pytest.raises(NotFound):
        host.storage.upload("default", "none", b"x")
    with pytest.raises(NotFound):
        inspect(host, "none")
    with pytest.raises(NotFound):
        plan = VolumePlan(pool="default", name="copy", capacity_bytes=1, format="raw")
        host.storage.create("default", domainxml.volume(plan), copy_from="none")


def test_a_volumes_name_is_taken_once(host: Host) -> None:
    make_volume(host, "vm.qcow2")
    with pytest.raises(Conflict):
        make_volume(host, "vm.qcow2")
    host.storage.delete("default", "vm.qcow2")
    make_volume(host, "vm.qcow2")
