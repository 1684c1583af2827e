"""The parts of a domain that a user asked for, read from its XML one by one for comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lxml import etree

from vgpumgr.domainxml.domain_facts import memory_bytes, pci_address
from vgpumgr.domainxml.domain_screen import domain_screen
from vgpumgr.domainxml.plan_xml import optional_devices
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.formats import exact_size

# Devices beside disks, NICs and hostdevs that libvirt never adds by itself.
_OTHERS = ("graphics", "filesystem", "redirdev", "shmem", "smartcard", "vsock")
_SOURCES = ("file", "dev", "volume", "name", "dir")
_QEMU_ARGUMENTS = "{http://libvirt.org/schemas/domain/qemu/1.0}commandline"


@dataclass(frozen=True, slots=True)
class DomainParts:
    """``settings`` (``{"memory": "4GiB", "vcpus": "2"}``) and ``devices`` (``{"disk vda":
    "/pool/a.qcow2 (qcow2)", "mdev 4b20…": ""}``) by name."""

    settings: Mapping[str, str]
    devices: Mapping[str, str]


def parts(xml: str) -> DomainParts:
    """Only what a VM's file asks for, and what somebody may add to it.

    Whatever libvirt fills in is left out. Raises ValueError where the text is no domain.
    """
    domain = untrusted(xml, "domain")
    settings = {"memory": _memory(domain), "vcpus": _vcpus(domain), "firmware": firmware(domain)}
    return DomainParts({**settings, **dict(_tuning(domain))}, _numbered(_devices(domain)))


def _memory(domain: etree._Element) -> str:
    whole = memory_bytes(domain.find("memory"))
    current = domain.find("currentMemory")
    now = whole if current is None else memory_bytes(current)
    return exact_size(whole) if now == whole else f"{exact_size(whole)} ({exact_size(now)} in use)"


def _vcpus(domain: etree._Element) -> str:
    vcpu = domain.find("vcpu")
    if vcpu is None:
        return "1"
    most, now = (vcpu.text or "1").strip(), vcpu.get("current")
    return most if now in {None, most} else f"{most} ({now} in use)"


def firmware(domain: etree._Element) -> str:
    """``uefi`` or ``bios``."""
    chosen = domain.find("os[@firmware='efi']") is not None
    loaded = domain.find("os/loader[@type='pflash']") is not None
    return "uefi" if chosen or loaded else "bios"


def _tuning(domain: etree._Element) -> Iterator[tuple[str, str]]:
    if domain.find("memoryBacking/hugepages") is not None:
        page = domain.find("memoryBacking/hugepages/page")
        yield "huge pages", "default" if page is None else f"{page.get('size')}{page.get('unit')}"
    if (memory := domain.find("numatune/memory")) is not None and memory.get("mode") != "preferred":
        yield "NUMA node", memory.get("nodeset", "")
    if pins := list(_pins(domain)):
        text = ", ".join(f"{pin.get('vcpu')} on {pin.get('cpuset')}" for pin in pins)
        yield "CPU pinning", text
    if shares := (domain.findtext("cputune/shares") or "").strip():
        yield "CPU shares", shares
    for key in optional_devices(domain):
        yield key, "yes"
    if (screen := domain_screen(domain)) is not None:
        yield "screen", str(screen)
    if (arguments := domain.find(_QEMU_ARGUMENTS)) is not None:
        yield "QEMU arguments", " ".join(str(each.get("value", "")) for each in arguments)


def _pins(domain: etree._Element) -> Iterator[etree._Element]:
    """vCPUs pinned one by one; which CPUs those of a NUMA cell roam on follows from the host."""
    spans = domain.find("numatune/memnode") is not None
    for pin in domain.iterfind("cputune/vcpupin"):
        if not spans or (pin.get("cpuset") or "").isdecimal():
            yield pin


def _numbered(found: Iterator[tuple[str, str]]) -> dict[str, str]:
    """By name; one more of the same name gets a number."""
    named: dict[str, str] = {}
    for name, text in found:
        number, key = 1, name
        while key in named:
            number += 1
            key = f"{name} ({number})"
        named[key] = text
    return named


def _devices(domain: etree._Element) -> Iterator[tuple[str, str]]:
    home = domain.find("devices")
    if home is None:
        return
    for disk in home.iterfind("disk"):
        yield f"disk {_get(disk, 'target', 'dev')}", _disk(disk)
    for nic in home.iterfind("interface"):
        yield f"NIC {_get(nic, 'mac', 'address')}", _nic(nic)
    for hostdev in home.iterfind("hostdev"):
        yield _hostdev(hostdev), ""
    for tag in _OTHERS:
        for each in home.iterfind(tag):
            yield f"{tag} {each.get('type', '')}".strip(), ""


def _disk(disk: etree._Element) -> str:
    where = next(filter(None, (_get(disk, "source", name) for name in _SOURCES)), "")
    kind = "CD-ROM, " if disk.get("device") == "cdrom" else ""
    said = f"{kind}{_get(disk, 'driver', 'type') or 'raw'}"
    return f"{where or 'empty'} ({', '.join([said, *_disk_tuning(disk)])})"


def _disk_tuning(disk: etree._Element) -> Iterator[str]:
    if cache := _get(disk, "driver", "cache"):
        yield f"cache {cache}"
    if serial := (disk.findtext("serial") or "").strip():
        yield f"serial {serial}"
    for limit in disk.iterfind("iotune/*"):
        yield f"{limit.tag} {(limit.text or '').strip()}"


def _nic(nic: etree._Element) -> str:
    for name in ("network", "bridge", "dev"):
        if said := _get(nic, "source", name):
            return ", ".join([f"{name} {said}", *_nic_tuning(nic)])
    address = nic.find("source/address")
    if address is not None and "slot" in address.attrib:
        vlan = _get(nic, "vlan/tag", "id")
        return f"VF {pci_address(address)}{f', vlan {vlan}' if vlan else ''}"
    return nic.get("type", "")


def _nic_tuning(nic: etree._Element) -> Iterator[str]:
    if (model := _get(nic, "model", "type")) not in {"", "virtio"}:
        yield f"model {model}"
    if vlan := _get(nic, "vlan/tag", "id"):
        yield f"vlan {vlan}"
    if named := _get(nic, "filterref", "filter"):
        yield f"filter {named}"
    for limit in nic.iterfind("bandwidth/*"):
        yield f"{limit.tag} {limit.get('average', '')} KiB/s"


def _hostdev(hostdev: etree._Element) -> str:
    kind, address = hostdev.get("type", ""), hostdev.find("source/address")
    if address is not None and kind == "mdev":
        return f"mdev {address.get('uuid', '').lower()}"
    if address is not None and "slot" in address.attrib:
        return f"PCI function {pci_address(address)}"
    return f"{kind} device"


def _get(element: etree._Element, child: str, attribute: str) -> str:
    found = element.find(child)
    return "" if found is None else str(found.get(attribute) or "")
