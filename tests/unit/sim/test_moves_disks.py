"""Moves between simulated hosts: what becomes of disks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.sim.moving import Two, digest, fleet, refused, started, to, volume
from vgpumgr.model.errors import (
    HostRefused,
    NotFound,
)


@pytest.fixture
def two() -> Iterator[Two]:
    made = fleet()
    yield made
    made.hosts.close()


def test_a_disk_goes_along_with_its_data(two: Two) -> None:
    disk = volume(two.source)
    two.source.storage.upload("default", "disk", b"data")
    volume(two.target)
    started(two.source, disks=(disk,))
    two.source.domains.migrate(to(two.source, copied=("vda",)), two.target)
    assert digest(two.target) == digest(two.source)


def test_disks_that_cannot_go_along(two: Two) -> None:
    started(two.source, disks=(volume(two.source),))
    refused(two, to(two.source), "without shared storage is unsafe")
    refused(two, to(two.source, copied=("vdb",)), "disk vdb not found")
    refused(two, to(two.source, copied=("vda",)), "No such file")
    volume(two.target, capacity_bytes=2 << 20)
    refused(two, to(two.source, copied=("vda",)), "different sizes")


@pytest.mark.parametrize("kind", ["raw", "qcow2"])
def test_a_copied_file_is_the_same_after_a_power_cut(two: Two, kind: str) -> None:
    for host in (two.source, two.target):
        volume(host, format=kind)
    two.source.storage.upload("default", "disk", b"data")
    assert digest(two.source) != digest(two.target)
    heard: list[int] = []
    two.source.storage.copy_to("default", "disk", two.target, heard.append)
    two.hosts.fleet.inject("h2", ["reboot"])
    assert digest(two.source) == digest(two.target)
    assert heard == [digest(two.source)["bytes"]]  # type: ignore[index]


def test_a_copy_of_another_format_or_of_nothing(two: Two) -> None:
    volume(two.source)
    with pytest.raises(NotFound):
        two.source.storage.copy_to("default", "disk", two.target, print)
    volume(two.target, format="qcow2")
    with pytest.raises(HostRefused):
        two.source.storage.copy_to("default", "disk", two.target, print)
    assert "<name>disk</name>" in two.source.storage.xml("default", "disk")


def test_nothing_goes_to_another_fleet_or_a_real_host(two: Two) -> None:
    other = fleet()
    started(two.source)
    with pytest.raises(HostRefused, match="h2"):
        two.source.domains.migrate(to(two.source), other.target)
    real: Any = type("Real", (), {"name": "r1", "domains": None, "storage": None})()
    with pytest.raises(HostRefused, match="r1"):
        two.source.domains.migrate(to(two.source), real)
    with pytest.raises(HostRefused, match="r1"):
        two.source.storage.copy_to("default", "disk", real, print)
    other.hosts.close()
