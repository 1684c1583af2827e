"""Requests that are well written but that the hosts cannot fulfil; nothing may be left behind.

That a host does not resolve is here; a wrong key, a missing sudo rule and a host without libvirt
need real SSH: test_real_ssh.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host, host_dumps, names, new_cli, sim_host, vm
from vgpumgr import domainxml
from vgpumgr.model.domain import VolumePlan

OVERLAY = {"mode": "overlay", "image": "debian-12.qcow2"}
GIVEN = "given.qcow2"
ON_ONE = {"affinity": {"hosts": ["one"]}}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)), host("dark", ("A100-PCIE-80GB", 1), iommu=False))
        yield found


@pytest.fixture
def cli(fleet: Cli) -> Iterator[Cli]:
    """The fleet; every test must leave it as it was."""
    before = host_dumps(fleet)
    yield fleet
    assert fleet.items("operation", "list", "--open") == []
    assert fleet.items("allocation", "list") == []
    assert host_dumps(fleet) == before


def refused(cli: Cli, code: int, *documents: dict[str, Any]) -> dict[str, Any]:
    """The error of an apply that must be refused before anything is reserved."""
    failed = cli.fails(code, "apply", "-f", cli.documents(*documents), "-o", "json")
    assert names(cli.items("vm", "list")) == []
    assert failed.error["next"]
    return failed.error


def test_a_profile_that_no_gpu_can_make_cannot_be_placed(cli: Cli) -> None:
    error = refused(cli, 5, vm("a", "A40-8Q"))
    assert "A40-8Q" in error["why"]
    assert "T4" in error["why"]


def test_a_count_over_what_one_vm_may_have_is_explained(cli: Cli) -> None:
    error = refused(cli, 5, vm("a", gpus=[{"profile": "T4-4Q", "count": 16}]))
    assert "16" in error["why"]


def test_a_model_that_is_nowhere_cannot_be_placed(cli: Cli) -> None:
    error = refused(cli, 5, vm("a", gpus=[{"profile": "passthrough", "model": "H200"}]))
    assert "H200" in error["why"]


def test_without_an_iommu_no_whole_gpu_is_given(cli: Cli) -> None:
    wanted = {"profile": "passthrough", "model": "A100-PCIE-80GB"}
    error = refused(cli, 5, vm("a", gpus=[wanted]))
    assert "IOMMU is off" in error["why"]


def test_a_host_that_does_not_resolve_is_unreachable(cli: Cli) -> None:
    failed = cli.fails(6, "host", "add", "far", "--address", "root@no-such-host.invalid")
    assert "no-such-host.invalid" in failed.err
    assert "far" not in names(cli.items("host", "list"))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"networks": [{"bridge": "br9"}]}, "br9"),
        ({"networks": [{"network": "nowhere"}]}, "nowhere"),
        ({"disks": [{"size": "1GiB", "pool": "nowhere"}]}, "nowhere"),
        ({"hugepages": "1GiB"}, "huge"),
        ({"vcpus": 512}, "vCPU"),
        ({"memory": "2TiB"}, "memory"),
        ({"affinity": {"hosts": ["nobody"]}}, "excluded by affinity (hosts: nobody)"),
        ({"affinity": {"host_labels": {"rack": "7"}}}, "rack"),
    ],
)
def test_what_a_host_lacks_is_named(cli: Cli, more: dict[str, Any], says: str) -> None:
    assert says in refused(cli, 5, vm("a", **more))["why"]


def test_a_missing_disk_image_is_named_with_its_pool(cli: Cli) -> None:
    missing = {"mode": "overlay", "image": "nonesuch.qcow2"}
    error = refused(cli, 3, vm("a", disks=[missing]))
    assert "nonesuch.qcow2 is not in pool default" in error["message"]


def test_an_image_of_another_format_is_refused(cli: Cli) -> None:
    error = refused(cli, 2, vm("a", disks=[{**OVERLAY, "image_format": "raw"}]))
    assert "is qcow2, not raw" in error["message"]


@pytest.mark.parametrize("backing", ["/etc/shadow", "../secret.qcow2", "nbd:host:10809"])
def test_an_image_with_a_backing_file_outside_the_pool_is_refused(cli: Cli, backing: str) -> None:
    with image(cli, qcow2(backing=backing)) as name:
        error = refused(cli, 4, vm("a", disks=[{"mode": "overlay", "image": name}], **ON_ONE))
    assert f"backing file outside the pool: {backing}" in error["message"]


def test_an_image_with_a_data_file_is_refused(cli: Cli) -> None:
    with image(cli, qcow2(data_file="/dev/sda")) as name:
        error = refused(cli, 4, vm("a", disks=[{"mode": "copy", "image": name}], **ON_ONE))
    assert "another file" in error["message"]


class image:  # noqa: N801  reads as a verb: with image(…)
    """An image in the default pool of host one, gone afterwards."""

    def __init__(self, cli: Cli, content: bytes) -> None:
        self._cli, self._content = cli, content

    def __enter__(self) -> str:
        plan = VolumePlan(
            pool="default", name="given.qcow2", capacity_bytes=1 << 20, format="qcow2"
        )
        with sim_host(self._cli, "one") as found:
            found.storage.create("default", domainxml.volume(plan))
            found.storage.upload("default", plan.name, self._content)
        return plan.name

    def __exit__(self, *_: object) -> None:
        with sim_host(self._cli, "one") as found:
            found.storage.delete("default", GIVEN)


def qcow2(backing: str = "", data_file: str = "") -> bytes:
    """A version 3 header (QEMU docs/interop/qcow2.txt) naming these files."""
    features = 1 << 2 if data_file else 0
    name = data_file.encode()
    padded = name.ljust(-(-len(name) // 8) * 8, b"\0")
    extension = struct.pack(">II", 0x44415441, len(name)) + padded if name else b""
    extension += struct.pack(">II8s", 0xE2792ACA, 5, b"qcow2") if backing else b""
    extension += struct.pack(">II", 0, 0)
    where = 104 + len(extension) if backing else 0
    head = struct.pack(
        ">4sIQIIQIIQQIIQQQQII",
        *(b"QFI\xfb", 3, where, len(backing), 16, 1 << 20, 0, 1, 3 << 16, 1 << 16),
        *(1, 0, 0, features, 0, 0, 4, 104),
    )
    return head + extension + backing.encode()


def foreign_domain(device: str) -> str:
    """A domain somebody else made, holding a whole GPU."""
    bus, slot, function = device[5:7], device[8:10], device[11]
    return f"""<domain type='kvm'><name>theirs</name><memory unit='MiB'>1024</memory>
      <vcpu>2</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os>
      <features><acpi/></features><devices>
      <hostdev mode='subsystem' type='pci' managed='no'><driver name='vfio'/>
        <source><address domain='0x0000' bus='0x{bus}' slot='0x{slot}' function='0x{function}'/>
        </source></hostdev></devices></domain>"""


def test_a_gpu_in_a_foreign_domain_is_shown_left_alone_and_not_given(cli: Cli) -> None:
    (gpu,) = cli.items("gpu", "list", "--host", "one")
    with sim_host(cli, "one") as found:
        found.domains.define(foreign_domain(gpu["device"]))
        try:
            error = refused_beside_foreign(cli, vm("a", "passthrough"))
            assert "theirs" in error["why"]
            assert "theirs" in refused_beside_foreign(cli, vm("a", "T4-4Q"))["why"]
            (shown,) = cli.items("vm", "list")
            assert (shown["name"], shown["owner"]) == ("theirs", "foreign")
            held = next(each for each in cli.items("gpu", "list") if each["name"] == gpu["name"])
            assert held["foreign"] == [{"profile": "passthrough", "what": "domain theirs"}]
            assert held["units_used"] == held["units"]
            assert "#" in cli.ok("map").out
            cli.fails(3, "vm", "delete", "theirs", "--force", "-y")
            why = refused_beside_foreign(cli, vm("theirs", **ON_ONE))["why"]
            assert "one has a foreign domain named theirs" in why
            assert found.domains.look("theirs") is not None
        finally:
            found.domains.undefine("theirs")
    cli.ok("host", "probe", "one")


def refused_beside_foreign(cli: Cli, document: dict[str, Any]) -> dict[str, Any]:
    failed = cli.fails(5, "apply", "-f", cli.documents(document), "-o", "json")
    return failed.error
