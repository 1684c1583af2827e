"""Reading domain XML of any origin, within limits."""

import timeit

import pytest

from vgpumgr import domainxml
from vgpumgr.domainxml.xml_tree import MAX_BYTES
from vgpumgr.model.domain import DomainState, Ownership

MARK = "xmlns:v='https://vgpumgr.dev/v1'"

FOREIGN = """<?xml version='1.0' encoding='ISO-8859-1'?>
<!-- made by hand -->
<domain type='kvm' id='7' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>gäst</name>
  <uuid>6F1C5E4E-8F8E-4D6B-9F29-0F5F1F0C7A99</uuid>
  <metadata>
    <libosinfo:libosinfo xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0">
      <libosinfo:os id="http://microsoft.com/win/11"/>
    </libosinfo:libosinfo>
  </metadata>
  <memory unit='GiB'>4</memory>
  <vcpu placement='static' current='1'>2</vcpu>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'><source file='/x.img'/><target dev='vda'/></disk>
    <disk type='nvme' device='disk'>
      <source type='pci' managed='yes' namespace='1'>
        <address domain='0x0000' bus='0x03' slot='0x00' function='0x0'/>
      </source>
      <target dev='vdb'/>
    </disk>
    <interface type='hostdev' managed='yes'>
      <source><address type='pci' domain='0x0000' bus='0x07' slot='0x10' function='0x2'/></source>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/>
    </interface>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source><address bus='65' slot='0' function='1'/></source>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x06' function='0x0'/>
    </hostdev>
    <hostdev mode='subsystem' type='mdev' model='vfio-pci'>
      <source><address uuid='C1B4E2D0-0001-4000-8000-00000000000F'/></source>
    </hostdev>
    <hostdev mode='subsystem' type='usb'>
      <source><vendor id='0x1234'/><product id='0xbeef'/><address bus='1' device='2'/></source>
    </hostdev>
    <hostdev mode='subsystem' type='scsi'>
      <source><adapter name='scsi_host0'/><address bus='0' target='0' unit='0'/></source>
    </hostdev>
  </devices>
  <qemu:commandline><qemu:arg value='-foo'/></qemu:commandline>
</domain>
"""


def test_a_foreign_domain_tells_its_size_and_every_host_device_it_holds():
    facts = domainxml.parse(FOREIGN)
    assert facts.name == "gäst"
    assert facts.uuid == "6f1c5e4e-8f8e-4d6b-9f29-0f5f1f0c7a99"
    assert (facts.vcpus, facts.memory_mib) == (2, 4096)
    assert (facts.state, facts.persistent) == (DomainState.SHUTOFF, True)
    assert facts.ownership is None
    assert facts.devices == (
        "0000:03:00.0",
        "0000:07:10.2",
        "0000:41:00.1",
        "c1b4e2d0-0001-4000-8000-00000000000f",
    )


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("<memory>1048576</memory>", 1024),
        ("<memory unit='KiB'>1</memory>", 1),
        ("<memory unit='b'>1048577</memory>", 2),
        ("<memory unit='MB'>1049</memory>", 1001),
        ("<memory unit='T'>1</memory>", 1 << 20),
        ("", 0),
    ],
)
def test_memory_is_read_in_every_unit_and_rounded_up(text, mib):
    assert domainxml.parse(f"<domain><name>n</name>{text}</domain>").memory_mib == mib


def marked(mark: str) -> Ownership | None:
    xml = f"<domain><name>n</name><metadata>{mark}</metadata></domain>"
    return domainxml.parse(xml).ownership


def test_our_mark_is_read_whatever_its_prefix():
    mark = "<w:vm xmlns:w='https://vgpumgr.dev/v1' fleet='f' name='n' id='i' generation='4'>"
    assert marked(f"{mark}<w:allocation id='a'/><w:allocation id='b'/></w:vm>") == Ownership(
        fleet="f", vm="n", vm_id="i", generation=4, allocations=("a", "b")
    )


@pytest.mark.parametrize(
    "mark",
    [
        f"<v:vm {MARK} fleet='f' name='n' id='i'/>",
        f"<v:vm {MARK} fleet='f' name='n' id='i' generation='x'/>",
        f"<v:vm {MARK} name='n' id='i' generation='1'/>",
        f"<v:vm {MARK} fleet='f' name='n' id='i' generation='1'><v:allocation/></v:vm>",
        "<v:vm xmlns:v='https://elsewhere/v1' fleet='f' name='n' id='i' generation='1'/>",
        "<vm fleet='f' name='n' id='i' generation='1'/>",
    ],
)
def test_a_mark_that_is_not_ours_or_not_whole_makes_the_domain_foreign(mark):
    assert marked(mark) is None


BOMB = "<!DOCTYPE d [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]><domain>&b;</domain>"


@pytest.mark.parametrize(
    ("xml", "complaint"),
    [
        (BOMB, "DOCTYPE"),
        ("<!DOCTYPE d SYSTEM 'http://127.0.0.1/x'><domain/>", "DOCTYPE"),
        ("<domain><name>&xxe;</name></domain>", "not well-formed"),
        ("<domain><name>n</name>", "not well-formed"),
        ("", "not well-formed"),
        ("<network><name>n</name></network>", "<domain> expected"),
        ("<domain/>", "without a name"),
        ("<domain>" + "<a>" * 5000 + "</a>" * 5000 + "</domain>", "not well-formed"),
        ("<domain><name>n</name>" + " " * MAX_BYTES + "</domain>", "at most"),
        ("<domain><name>\ud800</name></domain>", "surrogates"),
        ("<domain><name>n</name><memory unit='lb'>1</memory></domain>", "'lb'"),
        ("<domain><name>n</name><vcpu>many</vcpu></domain>", "many"),
    ],
)
def test_what_libvirt_would_never_print_is_refused(xml, complaint):
    with pytest.raises(ValueError, match=complaint):
        domainxml.parse(xml)


def test_reading_a_domain_takes_a_fraction_of_a_millisecond():
    """A list of 1,000 domains is read on every probe; ten times the measured time is allowed."""
    best = min(timeit.repeat(lambda: domainxml.parse(FOREIGN), number=100, repeat=5)) / 100
    assert best < 0.001
