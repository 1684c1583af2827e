"""A domain's XML as parts that can be compared, ours and libvirt's alike."""

from __future__ import annotations

import pytest

from vgpumgr.domainxml import parts

WHOLE = """
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>web</name>
  <memory unit='KiB'>2097152</memory>
  <currentMemory unit='KiB'>1048576</currentMemory>
  <memoryBacking><hugepages><page size='1048576' unit='KiB'/></hugepages></memoryBacking>
  <vcpu placement='static' current='2'>4</vcpu>
  <cputune><vcpupin vcpu='0' cpuset='8'/><vcpupin vcpu='1' cpuset='9'/></cputune>
  <numatune><memory mode='strict' nodeset='1'/></numatune>
  <os><loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader></os>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/><source file='/pool/a.qcow2' index='1'/>
      <target dev='vda' bus='virtio'/><alias name='virtio-disk0'/>
    </disk>
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>
    <disk type='volume'><source pool='p' volume='v'/><target dev='vdb'/></disk>
    <controller type='pci' model='pcie-root'/>
    <interface type='network'>
      <mac address='52:54:00:00:00:01'/><source network='default' bridge='virbr0'/>
    </interface>
    <interface type='bridge'>
      <mac address='52:54:00:00:00:02'/><source bridge='br0'/>
    </interface>
    <interface type='user'><mac address='52:54:00:00:00:03'/></interface>
    <hostdev type='mdev'>
      <source><address uuid='4B20D080-1B54-4048-85B3-A6A62D165C01'/></source>
    </hostdev>
    <hostdev type='pci'>
      <source><address domain='0x0000' bus='0x41' slot='0x00' function='0x1'/></source>
    </hostdev>
    <hostdev type='usb'><source><vendor id='0x1'/></source></hostdev>
    <hostdev type='usb'><source><vendor id='0x2'/></source></hostdev>
    <graphics type='vnc' port='5900'/>
    <video><model type='vga'/></video>
    <tpm model='tpm-crb'/>
  </devices>
  <qemu:commandline><qemu:arg value='-global'/><qemu:arg value='x=1'/></qemu:commandline>
</domain>
"""


def test_every_part_is_read() -> None:
    found = parts(WHOLE)
    assert found.settings == {
        "memory": "2GiB (1GiB in use)",
        "vcpus": "4 (2 in use)",
        "firmware": "uefi",
        "huge pages": "1048576KiB",
        "NUMA node": "1",
        "CPU pinning": "0 on 8, 1 on 9",
        "tpm": "yes",
        "QEMU arguments": "-global x=1",
    }
    assert found.devices == {
        "disk vda": "/pool/a.qcow2 (qcow2)",
        "disk sda": "empty (CD-ROM, raw)",
        "disk vdb": "v (raw)",
        "NIC 52:54:00:00:00:01": "network default",
        "NIC 52:54:00:00:00:02": "bridge br0",
        "NIC 52:54:00:00:00:03": "user",
        "mdev 4b20d080-1b54-4048-85b3-a6a62d165c01": "",
        "PCI function 0000:41:00.1": "",
        "usb device": "",
        "usb device (2)": "",
        "graphics vnc": "",
    }


def test_a_plain_domain_has_three_settings_and_no_device() -> None:
    found = parts("<domain><name>web</name><memory>524288</memory></domain>")
    assert found.settings == {"memory": "512MiB", "vcpus": "1", "firmware": "bios"}
    assert found.devices == {}


@pytest.mark.parametrize("text", ["", "<network/>", "<domain><memory unit='x'>1</memory></domain>"])
def test_what_is_no_domain_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"domain|well-formed|memory in"):
        parts(text)
