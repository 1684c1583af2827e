"""Guests of Proxmox VE as VMs: a composed node, and each key that the documentation has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from vgpumgr import takeover
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.model.vm_devices import NicSpec
from vgpumgr.spec import load, vm_document
from vgpumgr.takeover import Fate, FleetVm, TakenVm, TakeoverChoices
from vgpumgr.takeover.guest_description import Unreadable
from vgpumgr.takeover.proxmox_config import mapped_devices, parse
from vgpumgr.takeover.source_keys import UNKNOWN

NODE = Path(__file__).parents[2] / "cases" / "takeover" / "pve1"
MAPPED = mapped_devices((NODE / "mapping" / "pci.cfg").read_text())
MAC = "BC:24:11:00:00:01"
PLAIN = f"name: a\nmemory: 1024\nnet0: virtio={MAC},bridge=vmbr0\n"

# Every key of qm.conf(5), with a value of the form that it has there.
DOCUMENTED = {
    "acpi": "1", "affinity": "0,5,8-11", "agent": "enabled=1,freeze-fs=0,type=virtio",
    "allow-ksm": "1", "amd-sev": "type=std", "arch": "x86_64", "args": "-no-reboot",
    "audio0": "device=AC97,driver=spice", "autostart": "0", "balloon": "512", "bios": "ovmf",
    "boot": "order=scsi0;net0", "bootdisk": "scsi0", "cdrom": "none",
    "cicustom": "user=local:snippets/u.yaml", "cipassword": "secret-word", "citype": "nocloud",
    "ciupgrade": "1", "ciuser": "me", "cores": "2", "cpu": "host,hidden=1,flags=+pcid",
    "cpulimit": "2", "cpuunits": "100", "description": "a%20b",
    "efidisk0": "local:1/v.raw,efitype=4m,format=raw,ms-cert=2023,pre-enrolled-keys=1,size=4M",
    "freeze": "0", "hookscript": "local:snippets/h.pl",
    "hostpci0": "0000:41:00.4,mdev=nvidia-562,pcie=1,rombar=1,driver=keep,legacy-igd=0,"
    "vendor-id=0x10de,device-id=0x2235,sub-vendor-id=0x10de,sub-device-id=0x145a,x-vga=0",
    "hotplug": "disk,network", "hugepages": "2",
    "ide0": "local:1/a.qcow2,model=disk,size=1G", "intel-tdx": "type=tdx", "ipconfig0": "ip=dhcp",
    "ivshmem": "size=32,name=x", "keephugepages": "0", "keyboard": "de", "kvm": "1",
    "localtime": "0", "machine": "type=q35,viommu=intel,enable-s3=0", "memory": "current=1024",
    "migrate_downtime": "0.1", "migrate_speed": "0", "name": "cad", "nameserver": "192.0.2.1",
    "net0": f"virtio={MAC},bridge=vmbr0,firewall=1,host-tunnel=1,link_down=0,mtu=1,queues=2,"
    "rate=10,tag=5,trunks=6;7",
    "numa": "1", "numa0": "cpus=0-1,memory=1024", "onboot": "1", "ostype": "win11",
    "parallel0": "/dev/parport0", "protection": "1", "reboot": "1",
    "rng0": "source=/dev/urandom,max_bytes=1024,period=1000",
    "sata0": "local:1/b.qcow2,size=1G",
    "scsi0": "local:1/c.qcow2,aio=native,backup=0,cache=none,detect_zeroes=1,discard=on,"
    "format=qcow2,iops=100,iops_max=200,iops_max_length=1,iops_rd=1,iothread=1,mbps=10,mbps_wr=1,"
    "media=disk,product=p,queues=2,replicate=0,rerror=stop,ro=1,scsiblock=0,serial=S1,shared=1,"
    "size=8G,snapshot=0,ssd=1,vendor=v,werror=stop,wwn=0x1234567890123456,bps_rd=1",
    "scsihw": "virtio-scsi-single", "searchdomain": "example.com", "serial0": "socket",
    "serial1": "/dev/ttyS0", "shares": "1000",
    "smbios1": "uuid=7d1c9b3e-4f2a-4c6d-9a10-000000000001,family=Zg==,manufacturer=Zg==,"
    "product=Zg==,serial=Zg==,sku=Zg==,version=Zg==,base64=1",
    "smp": "1", "sockets": "1", "spice_enhancements": "foldersharing=1", "sshkeys": "ssh-ed25519",
    "startdate": "now", "startup": "order=1", "tablet": "1", "tags": "a;b", "tdf": "0",
    "template": "0", "tpmstate0": "local:1/t.raw,format=raw,size=4M,version=v2.0",
    "unused0": "local:1/u.raw", "usb0": "host=spice,usb3=1", "vcpus": "2",
    "vga": "std,memory=16,clipboard=vnc", "virtio0": "local:1/d.qcow2,size=1G",
    "virtiofs0": "dirid=x,cache=auto", "vmgenid": "1", "vmstate": "x", "watchdog": "i6300esb",
    "lock": "backup", "digest": "1", "meta": "creation-qemu=9", "parent": "s", "snaptime": "1",
    "runningmachine": "pc", "runningcpu": "host", "running-nets-host-mtu": "net0=1500",
}  # fmt: skip


def taken(text: str, source: str = "101.conf", **chosen: object) -> TakenVm:
    [found] = takeover.read("proxmox", [(source, text)], TakeoverChoices(**chosen))  # type: ignore[arg-type]
    return found


def spec(text: str, **chosen: object) -> VmSpec:
    found = taken(text, **chosen)
    assert found.spec is not None
    assert found.problems == ()
    return found.spec


def fates(found: TakenVm) -> dict[str, Fate]:
    return {each.key: each.fate for each in found.findings}


def node(**chosen: object) -> tuple[TakenVm, ...]:
    texts = [(path.name, path.read_text()) for path in sorted((NODE / "qemu-server").glob("*"))]
    return takeover.read("proxmox", texts, TakeoverChoices(mapped=MAPPED, **chosen))  # type: ignore[arg-type]


def test_every_guest_of_the_node_is_a_vm_that_apply_takes() -> None:
    found = node()
    assert len(found) == 20
    assert [each.problems for each in found] == [()] * 20
    documents = [vm_document(each.spec) for each in found if each.spec]
    read = load(yaml.safe_dump_all(documents), "node.yaml")
    assert read.vms == tuple(each.spec for each in found)
    profiles = [gpu.profile for vm in read.vms for gpu in vm.gpus]
    assert profiles == ["A40-8Q"] * 8 + ["A40-4Q"] * 6 + ["T4-4Q"] * 4 + ["passthrough"] * 2
    assert len({vm.uuid for vm in read.vms}) == 20
    macs = [nic.mac for vm in read.vms for nic in vm.nics]
    assert len(set(macs)) == len(macs) == 24


def test_nothing_of_the_node_is_unknown_and_no_secret_is_told() -> None:
    for each in node():
        assert not [f.key for f in each.findings if f.text == UNKNOWN], each.name
        told = " ".join(f.text for f in each.findings) + " ".join(each.problems)
        assert "NotARealHash" not in told


def test_every_documented_key_is_named_once_and_none_is_unknown() -> None:
    text = "".join(f"{key}: {value}\n" for key, value in DOCUMENTED.items())
    found = taken(text, bridges={"vmbr0": "br0"})
    named = [each.key for each in found.findings]
    assert len(named) == len(set(named))
    assert DOCUMENTED.keys() <= set(named)
    assert [each.key for each in found.findings if each.text == UNKNOWN] == []
    assert "secret-word" not in repr(found)
    assert found.problems == ("it is locked there (backup): qm unlock 101",)


def test_what_nobody_knows_is_lost_and_said() -> None:
    found = taken(PLAIN + "future-key: 1\nscsi0: local:1/a.qcow2,future=1\nnonsense\n")
    lost = {each.key: each.text for each in found.findings if each.fate is Fate.LOST}
    assert lost["future-key"] == UNKNOWN
    assert lost["scsi0.future"] == UNKNOWN
    assert lost["line 6"] == "no line KEY: VALUE"


def test_an_mdev_is_what_the_operator_says_then_what_hosts_know_then_the_catalogue() -> None:
    text = PLAIN + "hostpci0: 0000:41:00.4,mdev=nvidia-562\n"
    assert spec(text).gpus == (GpuRequest(profile="A40-8Q"),)
    assert spec(text, types={"nvidia-562": "A40-6Q"}).gpus == (GpuRequest(profile="A40-6Q"),)
    chosen = {"types": {"nvidia-562": "A40-6Q"}, "gpus": {"nvidia-562": "A40-4Q"}}
    assert spec(text, **chosen).gpus == (GpuRequest(profile="A40-4Q"),)
    assert spec(text, gpus={"nvidia-562": "none"}).gpus == ()


def test_an_mdev_of_an_unknown_type_says_what_to_type() -> None:
    found = taken(PLAIN + "hostpci0: 0000:41:00.4,mdev=nvidia-99999\n")
    assert found.problems == (
        "hostpci0: nothing says which profile nvidia-99999 is: --gpu nvidia-99999=PROFILE",
    )
    assert fates(found)["hostpci0"] is Fate.LOST


@pytest.mark.parametrize("key", ["0000:41:00", "41:00", "41:00.0", "0000:41:00.0"])
def test_a_whole_gpu_is_found_by_any_form_of_its_address(key: str) -> None:
    found = spec(PLAIN + "hostpci0: 0000:41:00,pcie=1\n", gpus={key: "T4"})
    assert found.gpus == (GpuRequest(profile="passthrough", model="T4"),)


def test_a_device_that_may_be_no_gpu_is_not_guessed() -> None:
    found = taken(PLAIN + "hostpci0: 0000:05:00,pcie=1\n")
    assert "nothing says whether 0000:05:00 is a GPU" in found.problems[0]
    assert spec(PLAIN + "hostpci0: 0000:05:00\n", gpus={"0000:05:00": "none"}).gpus == ()
    whole = spec(PLAIN + "hostpci0: mapping=t4-whole\n", mapped=MAPPED)
    assert whole.gpus == (GpuRequest(profile="passthrough", model="T4"),)


def test_like_gpu_parts_are_counted() -> None:
    text = PLAIN + "hostpci0: 41:00.4,mdev=nvidia-566\nhostpci1: 41:00.5,mdev=nvidia-566\n"
    assert spec(text).gpus == (GpuRequest(profile="A40-48Q", count=2),)


def test_disks_boot_in_their_order_and_say_where_they_are() -> None:
    text = PLAIN + (
        "boot: order=virtio1;scsi0\nscsi0: pool:vm-101-disk-0,size=32G\n"
        "virtio1: /dev/disk/by-id/a b,size=528K\nide2: local:iso/x.iso,media=cdrom\n"
    )
    found = taken(text)
    assert [each.source.key for each in found.disks] == ["virtio1", "scsi0"]
    first, second = (each.source for each in found.disks)
    assert (first.size_bytes, second.size_bytes) == (528 << 10, 32 << 30)
    assert second.stems == ("vm-101-disk-0", "vm-101-scsi0")
    assert second.fetch == (
        'qemu-img convert -O qcow2 "$(pvesm path pool:vm-101-disk-0)" FOLDER/vm-101-disk-0.qcow2'
    )
    assert "'/dev/disk/by-id/a b'" in first.fetch
    assert [each.image for each in found.disks] == ["a-virtio1", "a-scsi0"]


@pytest.mark.parametrize(
    ("line", "key", "fate", "field", "value"),
    [
        ("bios: ovmf", "bios", Fate.KEPT, "firmware", "uefi"),
        ("cpu: EPYC-Rome", "cpu", Fate.KEPT, "cpu_model", "EPYC-Rome"),
        ("cpu: x86-64-v3", "cpu", Fate.CHANGED, "cpu_model", "host-passthrough"),
        ("cpuunits: 50000", "cpuunits", Fate.CHANGED, "cpu_shares", 10_000),
        ("hugepages: 1024", "hugepages", Fate.KEPT, "hugepage_kib", 1 << 20),
        ("hugepages: any", "hugepages", Fate.CHANGED, "hugepage_kib", 2048),
        ("onboot: 1", "onboot", Fate.KEPT, "autostart", True),
        ("agent: 1", "agent", Fate.KEPT, "agent", True),
        ("vga: none", "vga", Fate.KEPT, "console", False),
        ("vga: qxl", "vga", Fate.CHANGED, "console", True),
        ("tpmstate0: x:y,version=v1.2", "tpmstate0.version", Fate.CHANGED, "tpm", True),
        ("sockets: 2\ncores: 3", "sockets", Fate.CHANGED, "vcpus", 6),
        ("smp: 3", "smp", Fate.CHANGED, "vcpus", 3),
    ],
)
def test_a_key_becomes_a_key(line: str, key: str, fate: Fate, field: str, value: object) -> None:
    found = taken(PLAIN + line + "\n")
    assert found.problems == ()
    assert getattr(found.spec, field) == value
    assert fates(found)[key] is fate


def test_nics_keep_their_addresses_and_go_where_they_are_told() -> None:
    text = (
        "memory: 1024\nnet0: e1000=BC:24:11:00:00:01,bridge=vmbr0,tag=20,rate=1.5\n"
        "net1: model=vmxnet3,macaddr=BC:24:11:00:00:02,bridge=lan\nnet2: virtio=BC:24:11:00:00:03\n"
    )
    first, second, third = spec(text, bridges={"vmbr0": "br0", "lan": "network:office"}).nics
    assert (first.bridge, first.mac, first.tuning.model) == ("br0", "bc:24:11:00:00:01", "e1000e")
    assert (first.tuning.vlan, first.tuning.inbound_kib_s) == (20, 1536)
    assert (second.network, second.bridge) == ("office", None)
    assert third.network == "default"


def test_what_cannot_be_taken_over_says_why() -> None:
    assert "template" in taken(PLAIN + "template: 1\n").problems[0]
    assert "aarch64" in taken(PLAIN + "arch: aarch64\n").problems[0]
    assert "given twice" in taken(PLAIN + "name: b\n").problems[0]
    assert "no MAC address" in taken("memory: 64\nnet0: virtio,bridge=b\n").problems[0]
    assert taken("memory: 1\n").problems == ("memory: '1MiB' must be from 64MiB to 64TiB",)
    assert taken("hello").problems == ("no line of it is KEY: VALUE, as qm config prints it",)
    assert taken("").problems == ("no line of it is KEY: VALUE, as qm config prints it",)
    assert "control character" in taken("a: \x1b[31m\n").problems[0]
    assert "longer than 1 MiB" in taken("a" * (1 << 21)).problems[0]
    assert "more than 10000 lines" in taken("\n" * 10_001).problems[0]
    assert "more than 1000 keys" in taken("".join(f"k{n}: 1\n" for n in range(1002))).problems[0]
    many = "".join(f"scsi{n}: a:b-{n}\n" for n in range(20))
    assert "disks" in taken(PLAIN + many).problems[0]


def test_names_are_made_legal_and_told_apart() -> None:
    texts = [(f"{n}.conf", "name: CAD Seat\nmemory: 64\n") for n in (101, 102)]
    found = takeover.read("proxmox", texts, TakeoverChoices())
    assert [each.name for each in found] == ["cad-seat-101", "cad-seat-102"]


def test_a_vm_that_was_taken_over_before_is_known_again() -> None:
    uuid = "7d1c9b3e-4f2a-4c6d-9a10-000000000001"
    text = PLAIN + f"smbios1: uuid={uuid}\n"
    other = VmSpec(name="other", vcpus=1, memory_mib=64)
    for cut, known in ((True, other), (False, None)):
        there = FleetVm(spec=other, uuid=uuid, unfinished=cut)
        [found] = takeover.read("proxmox", [("101", text)], TakeoverChoices(), [there])
        assert (found.there, found.name, found.spec) == (True, "other", known)
    same = FleetVm(spec=replace(other, name="a", nics=(NicSpec(bridge="b", mac=MAC.lower()),)))
    [found] = takeover.read("proxmox", [("101", PLAIN)], TakeoverChoices(), [same])
    assert found.there
    alike = FleetVm(spec=replace(other, name="a"))
    [found] = takeover.read("proxmox", [("101", text)], TakeoverChoices(), [alike])
    assert found.problems == (
        "the fleet has another VM a: rename it on the source, or delete that one",
    )


def test_another_file_of_keys_and_values_is_no_guest() -> None:
    with pytest.raises(Unreadable, match="none of the keys"):
        parse("root:x:0:0:root:/root:/bin/bash\ndaemon: y\n")


EFI = (
    "bios: ovmf\nefidisk0: local:1/v.raw,efitype=4m,pre-enrolled-keys=1,size=4M\n"
    "tpmstate0: local:1/t.raw,size=4M,version=v2.0\ncores: 2\n"
)


@pytest.mark.parametrize(
    ("lines", "system"),
    [
        (f"ostype: win11\n{EFI}", "windows-11"),
        ("ostype: win11\n", ""),
        ("ostype: win10\n", "windows-10"),
        ("ostype: win10\nlocaltime: 0\n", ""),
        ("ostype: l26\n", ""),
        ("ostype: win8\n", ""),
    ],
)
def test_the_system_comes_along_where_its_machine_stays_what_it_was(
    lines: str, system: str
) -> None:
    text = PLAIN.replace("memory: 1024", "memory: 4096")
    found = spec(f"{text}{lines}")
    assert found.os == system
    assert vm_document(found).get("os", "") == system
