"""What libvirt added is fine, what it dropped or changed is told."""

import pytest

from vgpumgr import domainxml
from vgpumgr.model.domain import (
    DomainDisk,
    DomainNic,
    DomainPlan,
    MdevHostdev,
    Ownership,
    PciHostdev,
)
from vgpumgr.model.host import Versions

MDEV = "c1b4e2d0-0001-4000-8000-00000000000"
PLAN = DomainPlan(
    name="desk-01",
    uuid="6f1c5e4e-8f8e-4d6b-9f29-0f5f1f0c7a01",
    vcpus=2,
    memory_mib=1024,
    accelerator="kvm",
    disks=(DomainDisk(path="/pool/a.qcow2", format="qcow2", target="vda"),),
    nics=(DomainNic(mac="52:54:00:00:00:01", network="default"),),
    hostdevs=(
        MdevHostdev(uuid=f"{MDEV}1", display=True),
        MdevHostdev(uuid=f"{MDEV}2"),
        PciHostdev(address="0000:41:00.0"),
    ),
    graphics=True,
    hugepage_kib=2048,
    ownership=Ownership(fleet="f", vm="desk-01", vm_id="v", generation=1, allocations=("a",)),
)
SENT = domainxml.render(PLAN, Versions(libvirt="9.0.0"))
FIRST = f'display="on" ramfb="on">\n      <source>\n        <address uuid="{MDEV}1"/>'
PCI = '<address domain="0x0000" bus="0x41" slot="0x00" function="0x0"/>'


def test_a_domain_differs_in_nothing_from_itself():
    assert domainxml.differences(SENT, SENT) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('machine="q35"', 'machine="pc-q35-9.2"'),
        ('<driver name="vfio"/>', '<driver name="vfio"/><address type="pci" bus="0x05"/>'),
        ("<boot", '<loader type="pflash" readonly="yes">/x.fd</loader><boot'),
        ('<domain type="kvm">', '<domain type="kvm" id="3">'),
        ("<devices>", "<devices><emulator>/usr/bin/qemu</emulator><controller type='sata'/>"),
        ("<devices>", "<devices><channel type='unix'/><input type='mouse' bus='ps2'/>"),
        ('<topology sockets="1"', '<topology dies="1" clusters="1" sockets="1"'),
        ("<acpi/>", "<acpi/><smm state='off'/>"),
    ],
)
def test_what_libvirt_adds_or_expands_is_no_difference(old, new):
    assert old in SENT
    assert domainxml.differences(SENT, SENT.replace(old, new)) == ()


def test_a_firmware_choice_already_made_is_still_uefi_and_none_is_not():
    expanded = SENT.replace(
        '<os firmware="efi">', '<os><loader type="pflash" readonly="yes">/x.fd</loader>'
    )
    assert domainxml.differences(SENT, expanded) == ()
    bios = SENT.replace('<os firmware="efi">', "<os>")
    assert domainxml.differences(SENT, bios) == ("/os/@firmware: asked for 'efi', got None",)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (' ramfb="on"', "", f"/devices/hostdev[{MDEV}1]/@ramfb: asked for 'on', got None"),
        (FIRST, FIRST.replace('display="on"', 'display="off"'), "/@display: asked for 'on'"),
        ("1048576</memory>", "524288</memory>", "/memory: asked for '1048576', got '524288'"),
        ('<vcpu placement="static">2', '<vcpu placement="static">1', "/vcpu: asked for '2'"),
        ('generation="1"', 'generation="2"', "/metadata/vm/@generation: asked for '1', got '2'"),
        ('<v:allocation id="a"/>', "", "/metadata/vm/allocation: dropped"),
        ('<page size="2048" unit="KiB"/>', "", "/memoryBacking/hugepages/page: dropped"),
        ('type="qcow2"', 'type="raw"', "/devices/disk[vda]/driver/@type: asked for 'qcow2'"),
        ('network="default"', 'network="x"', "/source/@network: asked for 'default', got 'x'"),
        ("<acpi/>", "", "/features/acpi: dropped"),
        ('machine="q35"', 'machine="pc-i440fx-7.2"', "/os/type/@machine: asked for 'q35'"),
        ('type="kvm"', 'type="qemu"', "/@type: asked for 'kvm', got 'qemu'"),
    ],
)
def test_what_libvirt_drops_or_changes_is_told(old, new, told):
    assert old in SENT
    [difference] = domainxml.differences(SENT, SENT.replace(old, new, 1))
    assert told in difference


def test_a_dropped_device_is_named_and_not_taken_for_its_neighbour():
    start = SENT.index('<hostdev mode="subsystem" type="mdev"')
    end = SENT.index("</hostdev>", start) + len("</hostdev>")
    without = SENT[:start] + SENT[end:]
    assert domainxml.differences(SENT, without) == (f"/devices/hostdev[{MDEV}1]: dropped",)


def test_a_device_swapped_for_another_is_told_twice():
    swapped = SENT.replace('bus="0x41"', 'bus="0x42"')
    assert domainxml.differences(SENT, swapped) == (
        "/devices/hostdev[0x0000 0x41 0x00 0x0]: dropped",
        "/devices/hostdev[0x0000 0x42 0x00 0x0]: not expected",
    )


def test_a_device_nobody_asked_for_is_told():
    extra = SENT.replace("</devices>", f"<hostdev><source>{PCI}</source></hostdev></devices>")
    extra = extra.replace('bus="0x41" slot="0x00" function="0x0"/></', 'bus="0x99"/></')
    assert domainxml.differences(SENT, extra) == ("/devices/hostdev[0x0000 0x99]: not expected",)
