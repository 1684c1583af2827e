"""Disks, NICs, GPU parts and the agent's channel of a domain of libvirt's or oVirt's."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lxml import etree

from vgpumgr.domainxml.domain_facts import pci_address
from vgpumgr.domainxml.domain_tuning import disk_tuning, nic_tuning
from vgpumgr.model.domain import DiskTuning
from vgpumgr.model.vm import GpuRequest
from vgpumgr.model.vm_devices import NicSpec
from vgpumgr.takeover.guest_description import SourceDisk
from vgpumgr.takeover.source_keys import shown
from vgpumgr.takeover.takeover_choices import NONE

if TYPE_CHECKING:
    from vgpumgr.takeover.libvirt_domain import ReadDomain

AGENT = "org.qemu.guest_agent.0"
_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}")
_ENDINGS = (".qcow2", ".raw", ".img", ".vmdk")
_SERIAL = re.compile(r"[A-Za-z0-9_.+-]{1,20}")
_CACHES = frozenset({"none", "writeback", "writethrough", "directsync", "unsafe"})
_MOST = 1 << 40
NO_SPOOFING, OVIRT_FILTER = "no-mac-spoofing", "vdsm-no-mac-spoofing"
# Filters that come with libvirt (its src/nwfilter/xml).
OWN_FILTERS = frozenset(
    {
        *("allow-arp", "allow-dhcp", "allow-dhcp-server", "allow-dhcpv6", "allow-dhcpv6-server"),
        *("allow-incoming-ipv4", "allow-incoming-ipv6", "allow-ipv4", "allow-ipv6"),
        *("clean-traffic", "clean-traffic-gateway", "no-arp-ip-spoofing", "no-arp-mac-spoofing"),
        *("no-arp-spoofing", "no-ip-multicast", "no-ip-spoofing", "no-ipv6-multicast"),
        *("no-ipv6-spoofing", "no-mac-broadcast", NO_SPOOFING, "no-other-l2-traffic"),
        *("no-other-rarp-traffic", "qemu-announce-self", "qemu-announce-self-rarp"),
    }
)


def disks(found: ReadDomain) -> tuple[SourceDisk, ...]:
    """Its disks, those with a place in the boot order first."""
    read = [(_boot_order(each), _disk(found, key, each)) for key, each in _of_disks(found)]
    return tuple(disk for _, disk in sorted(read, key=lambda pair: pair[0]))


def _of_disks(found: ReadDomain) -> Iterator[tuple[str, etree._Element]]:
    for key, each in found.of_kind("disk"):
        kind = each.get("device", "disk")
        if kind == "disk":
            yield key, each
        else:
            found.keys.lost(key, f"no {shown(kind)} drive")


def _boot_order(disk: etree._Element) -> int:
    boot = disk.find("boot")
    text = "" if boot is None else str(boot.get("order", ""))
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 10**6


def _disk(found: ReadDomain, key: str, disk: etree._Element) -> SourceDisk:
    volume = _volume(disk)
    bus = _attribute(disk, "target", "bus")
    if not volume:
        found.problems.append(f"{shown(key)}: it names no file, device or volume")
    text = f"copied from {shown(volume) or 'nowhere'}"
    if bus == "virtio":
        found.keys.kept(key, f"a virtio disk, {text}")
    else:
        found.keys.changed(key, f"a virtio disk in place of {shown(bus) or 'another'}, {text}")
    tuning = _fit(disk_tuning(disk))
    if tuning.serial:
        found.keys.kept(f"{key}.serial", "the serial number in the guest")
    else:
        found.keys.lost(f"{key}.serial", "no serial number that libvirt takes")
    if tuning.iops or tuning.bytes_s:
        found.keys.kept(f"{key}.iotune", "limits on reads and writes together")
    else:
        found.keys.lost(f"{key}.iotune", "limits are on reads and writes together, without bursts")
    for part, why in _LOST_PARTS.items():
        found.keys.lost(f"{key}.{part}", why)
    stems = _stems(volume, key)
    name = key.rpartition(" ")[2]
    to = f"FOLDER/{stems[0] if stems else 'disk'}.qcow2"
    fetch = f"qemu-img convert -O qcow2 {_path(disk, volume)} {to}"
    return SourceDisk(key=name, volume=volume, stems=stems, tuning=tuning, fetch=fetch)


_LOST_PARTS: Mapping[str, str] = {
    "backingStore": "the copy stands by itself",
    "encryption": "the copy is not encrypted",
    "geometry": "no geometry of its own",
    "readonly": "the guest may write to it",
    "shareable": "a disk is one VM's",
    "transient": "what is written stays written",
    "vendor": "the guest is not told",
    "product": "the guest is not told",
    "wwn": "the guest is not told: serial is what it can know a disk by",
}


def _volume(disk: etree._Element) -> str:
    source = disk.find("source")
    if source is None:
        return ""
    if disk.get("type") == "network":
        return f"{source.get('protocol', '')}:{source.get('name', '')}"
    if disk.get("type") == "volume":
        return f"{source.get('pool', '')}/{source.get('volume', '')}"
    return str(source.get("file") or source.get("dev") or "")


def _path(disk: etree._Element, volume: str) -> str:
    if disk.get("type") == "volume":
        pool, _, name = volume.partition("/")
        return f'"$(virsh vol-path --pool {shlex.quote(pool)} {shlex.quote(name)})"'
    return shlex.quote(volume)


def _stems(volume: str, key: str) -> tuple[str, ...]:
    name = posixpath.basename(volume)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return tuple(each for each in (name, key.replace(" ", "-")) if _STEM.fullmatch(each))


def _fit(tuning: DiskTuning) -> DiskTuning:
    """The part of it that a file may say."""
    bytes_s = tuning.bytes_s if tuning.bytes_s and 1024 <= tuning.bytes_s <= _MOST else None
    return DiskTuning(
        cache=tuning.cache if tuning.cache in _CACHES else "",
        serial=tuning.serial if _SERIAL.fullmatch(tuning.serial) else "",
        iops=tuning.iops if tuning.iops and tuning.iops <= 10**9 else None,
        bytes_s=bytes_s and bytes_s >> 10 << 10,
    )


def nics(found: ReadDomain) -> tuple[NicSpec, ...]:
    """Its NICs with their MAC addresses."""
    return tuple(_nic(found, key, each) for key, each in found.of_kind("interface"))


def _nic(found: ReadDomain, key: str, element: etree._Element) -> NicSpec:
    network, bridge = (_attribute(element, "source", each) for each in ("network", "bridge"))
    name = bridge or network or _attribute(element, "source", "dev")
    mac = _attribute(element, "mac", "address").lower()
    tuning = nic_tuning(element)
    model = "virtio" if tuning.model == "virtio" else "e1000e"
    fit = replace(
        tuning,
        model=model,
        filter=_filter(found, key, tuning.filter),
        inbound_kib_s=_rate(tuning.inbound_kib_s),
        outbound_kib_s=_rate(tuning.outbound_kib_s),
    )
    if name in found.choices.bridges or (bridge and element.get("type") == "bridge"):
        nic = found.choices.nic(name)
    elif network and element.get("type") == "network":
        nic = NicSpec(network=network)
    else:
        example = shlex.quote(f"{name or '-'}=BRIDGE")
        found.problems.append(
            f"{shown(key)}: nothing says which bridge {shown(name) or 'it'} is: --bridge {example}"
        )
        found.keys.lost(key, "no bridge is known for it")
        return NicSpec(network="default", mac=mac)
    where = f"bridge {nic.bridge}" if nic.bridge else f"network {nic.network}"
    same = tuning.model == model and name in {nic.bridge, nic.network}
    say = found.keys.kept if same else found.keys.changed
    say(key, f"{model} on {shown(where)}, MAC address {shown(mac) or 'of its own'} kept")
    if nic.network:
        fit = replace(fit, vlan=None)
    return replace(nic, mac=mac, tuning=fit)


def _filter(found: ReadDomain, key: str, name: str) -> str:
    """A network filter that hosts have: one of libvirt's own, or that in place of oVirt's."""
    part = f"{key}.filterref"
    if name in OWN_FILTERS:
        found.keys.kept(part, f"filter {name}")
        return name
    if name == OVIRT_FILTER:
        found.keys.changed(part, f"filter {NO_SPOOFING} in place of oVirt's own")
        return NO_SPOOFING
    found.keys.lost(part, "no filter of libvirt's own: define it on hosts, and name it in filter:")
    return ""


def _rate(kib: int | None) -> int | None:
    return kib if kib and kib <= _MOST >> 10 else None


def gpus(found: ReadDomain) -> tuple[GpuRequest, ...]:
    """Its mdevs and whole GPUs."""
    return tuple(_gpus(found))


def _gpus(found: ReadDomain) -> Iterator[GpuRequest]:
    types = _ovirt_types(found.root)
    for key, element in found.of_kind("hostdev"):
        if element.get("type") not in {"mdev", "pci"}:
            continue
        address = element.find("source/address")
        uuid = "" if address is None else str(address.get("uuid", "")).lower()
        if element.get("type") == "mdev":
            called = types.get(uuid) or uuid
            request = found.choices.mdev(called, uuid)
        else:
            called = "" if address is None else pci_address(address)
            request = found.choices.device((called,))
        if isinstance(request, GpuRequest):
            on = f" on {' or '.join(request.any_of)}" if request.any_of else ""
            found.keys.kept(key, f"{request.profile}{on}, on a GPU that placement chooses")
            yield request
        elif request == NONE:
            found.keys.lost(key, "left out, as was chosen")
        else:
            found.keys.lost(key, f"nothing says what {shown(called)} is")
            found.problems.append(
                f"{shown(key)}: nothing says what {shown(called)} is: --gpu {shown(called)}=PROFILE"
                ", a board or none"
            )


def _ovirt_types(root: etree._Element) -> dict[str, str]:
    """The mdev types that oVirt keeps in its metadata, by the mdev's UUID."""
    found: dict[str, str] = {}
    for each in root.iterfind("metadata//{*}mdevType"):
        device = each.getparent()
        uuid = "" if device is None else str(device.get("uuid", "")).lower()
        if uuid and each.text:
            found[uuid] = each.text.strip().partition("|")[0]
    return found


def agent(found: ReadDomain) -> bool:
    """Whether it has a channel for the guest's agent."""
    there = False
    for key, element in found.of_kind("channel"):
        if _attribute(element, "target", "name") == AGENT:
            found.keys.kept(key, "a channel for the guest's agent")
            there = True
    return there


def _attribute(element: etree._Element, path: str, name: str) -> str:
    found = element.find(path)
    return "" if found is None else str(found.get(name) or "")
