"""Domains that other programs wrote → specs, or every reason why there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vgpumgr import domainxml
from vgpumgr.domainxml import Described, GivenDevice
from vgpumgr.engine.reservation.domain_plan import spec_of
from vgpumgr.model.domain import Ownership
from vgpumgr.model.vm import NumaPolicy, VmSpec
from vgpumgr.model.vm_devices import NicSpec

CASES = Path("tests/cases/domains")
PLAIN = Described(name="desk", kind="kvm", vcpus=4, memory_mib=4096, firmware="uefi")
MDEV = "4b20d080-1b54-4048-85b3-a6a62d165c01"
MARK = Ownership(fleet="f", vm="desk", vm_id="v", generation=3, allocations=("a", "b"))


def read(name: str) -> Described:
    """As recorded, but of a hypervisor that we speak to."""
    return replace(domainxml.described((CASES / name).read_text()), kind="kvm")


def test_what_virt_install_makes_is_read() -> None:
    assert spec_of(read("libvirt-mdev.xml")) == VmSpec(
        name="mdev-desk",
        vcpus=2,
        memory_mib=4096,
        nics=(NicSpec(network="default"),),
        firmware="bios",
    )
    assert read("libvirt-mdev.xml").devices == (GivenDevice(device=MDEV, managed=True),)
    plain = spec_of(read("virt-install-plain.xml"))
    assert isinstance(plain, VmSpec)
    assert plain.nics == ()


def test_a_display_on_a_vgpu_is_the_vms() -> None:
    found = spec_of(read("documented-display.xml"))
    assert isinstance(found, VmSpec)
    assert (found.display, found.vcpus, found.memory_mib) == (True, 8, 16384)


def test_a_nic_that_a_spec_cannot_say_leaves_all_to_the_definition() -> None:
    found = spec_of(read("virt-install-nic-on-vf.xml"))
    assert isinstance(found, VmSpec)
    assert found.nics == ()


@pytest.mark.parametrize("name", ["virt-install-pci.xml", "virt-install-vf-and-pf.xml"])
def test_what_libvirt_binds_by_itself_is_known(name: str) -> None:
    found = read(name)
    assert all(each.managed for each in found.devices)
    assert isinstance(spec_of(found), VmSpec)


def test_huge_pages_without_a_size_are_of_the_hosts_default() -> None:
    found = domainxml.described(TUNED.replace("<page size='2' unit='M'/>", ""))
    plain = replace(PLAIN, default_pages=found.default_pages, hugepage_kib=found.hugepage_kib)
    for size in (2048, 1 << 20):
        spec = spec_of(plain, size)
        assert isinstance(spec, VmSpec)
        assert spec.hugepage_kib == size


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "xen"}, "a domain of xen"),
        ({"arguments": True}, "its own QEMU arguments"),
        ({"password": True}, "its console has a password"),
    ],
)
def test_every_reason_is_said(changes: dict[str, object], said: str) -> None:
    found = spec_of(replace(PLAIN, **changes))  # type: ignore[arg-type]
    assert isinstance(found, tuple)
    [reason] = found
    assert said in reason


def test_all_reasons_are_said_at_once() -> None:
    found = spec_of(replace(PLAIN, password=True, kind="lxc", arguments=True))
    assert isinstance(found, tuple)
    assert len(found) == 3


def test_pinning_and_binding_are_kept() -> None:
    found = spec_of(replace(PLAIN, pins=(0, 1, 2, 3), numa_node=1, hugepage_kib=2048))
    assert isinstance(found, VmSpec)
    assert (found.pin_cpus, found.numa, found.hugepage_kib) == (True, NumaPolicy.REQUIRE, 2048)


TUNED = """<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>t</name><memory unit='GiB'>1</memory>
  <memoryBacking><hugepages><page size='2' unit='M'/></hugepages></memoryBacking>
  <vcpu>2</vcpu>
  <cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='5'/></cputune>
  <numatune><memory mode='strict' nodeset='1'/></numatune>
  <devices><graphics type='vnc' passwd='*****'/>
    <interface type='direct'><source dev='eth0'/></interface></devices>
  <qemu:commandline><qemu:arg value='-device'/></qemu:commandline>
</domain>"""


def test_tuning_is_read() -> None:
    found = domainxml.described(TUNED)
    assert (found.pins, found.numa_node, found.hugepage_kib) == ((4, 5), 1, 2048)
    assert (found.password, found.arguments, found.nics) == (True, True, (None,))
    half = TUNED.replace("<vcpupin vcpu='1' cpuset='5'/>", "<vcpupin vcpu='1' cpuset='5-6'/>")
    assert domainxml.described(half).pins == ()


@pytest.mark.parametrize("file", sorted(CASES.glob("*.xml")), ids=lambda each: each.stem)
def test_a_mark_goes_in_and_out_again_and_nothing_else_changes(file: Path) -> None:
    xml = file.read_text()
    marked = domainxml.with_mark(xml, domainxml.mark_text(MARK))
    assert domainxml.parse(marked).ownership == MARK
    assert replace(domainxml.parse(marked), ownership=None) == domainxml.parse(xml)
    again = domainxml.without_mark(marked)
    assert domainxml.parse(again) == domainxml.parse(xml)
    assert domainxml.differences(xml, again) == ()
    assert domainxml.differences(again.replace("<metadata/>", ""), xml) == ()


def test_the_definition_of_an_adopted_vm_changes_only_where_it_is_told_to() -> None:
    xml = (CASES / "libvirt-mdev.xml").read_text()
    same = domainxml.adopted(xml, MARK)
    assert domainxml.parts(same) == domainxml.parts(xml)
    grown = domainxml.parts(domainxml.adopted(xml, MARK, memory_mib=8192, vcpus=4))
    assert (grown.settings["memory"], grown.settings["vcpus"]) == ("8GiB", "4")
    assert grown.devices == domainxml.parts(xml).devices


@pytest.mark.parametrize(
    ("within", "change"),
    [
        ("<cpu><topology sockets='1' cores='2' threads='1'/></cpu>", {"vcpus": 4}),
        ("<cputune><vcpupin vcpu='0' cpuset='4'/></cputune>", {"vcpus": 4}),
        ("<cpu><numa><cell id='0' memory='1'/></numa></cpu>", {"memory_mib": 8192}),
    ],
)
def test_what_is_spread_over_the_guest_is_not_changed(within: str, change: dict[str, int]) -> None:
    xml = f"<domain><name>x</name><memory>1048576</memory><vcpu>2</vcpu>{within}</domain>"
    with pytest.raises(ValueError, match="its "):
        domainxml.adopted(xml, MARK, **change)  # type: ignore[arg-type]
