"""Domains that others defined: read as the spec of a VM, and their definition after adoption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lxml import etree

from vgpumgr.domainxml.domain_facts import memory_bytes, pci_address
from vgpumgr.domainxml.domain_parts import firmware
from vgpumgr.domainxml.domain_screen import domain_screen
from vgpumgr.domainxml.domain_tuning import cpu_model, cpu_shares, has_secure_boot, nic_tuning
from vgpumgr.domainxml.guest_system_xml import system_id
from vgpumgr.domainxml.ownership import mark_text, with_mark
from vgpumgr.domainxml.plan_xml import optional_devices
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.domain import DomainNic, NicTuning, Ownership, Screen
from vgpumgr.model.vm_devices import NicSpec

_QEMU_ARGUMENTS = "{http://libvirt.org/schemas/domain/qemu/1.0}commandline"
# x86's default, where the kernel's command line names no other (default_hugepagesz).
X86_HUGEPAGE_KIB = 2048
_PAGE_KIB = {"b": 0, "KiB": 1, "k": 1, "MiB": 1 << 10, "M": 1 << 10, "GiB": 1 << 20, "G": 1 << 20}


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A host device in a domain: ``device`` is an mdev's UUID or a PCI address.

    ``hostdev`` False: libvirt has it for another purpose (a NIC on a VF, an NVMe disk).
    """

    device: str
    hostdev: bool = True
    managed: bool = False
    display: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """``kind`` is the hypervisor (``kvm``), ``pins`` the host CPU of every vCPU (empty: not every
    one is pinned to one), ``numa_node`` where all memory must come from, ``preferred_node`` where
    it comes from as long as there is some.

    ``nics``, with the MAC addresses that they have, has None for one that a spec cannot say.
    ``cpu_model`` is None where it follows from the emulation. ``console``: a VNC server shows its
    ``screen``; ``password``: it has one, which libvirt does not show. ``optional_devices`` are the
    switches of a spec whose device it has. ``default_pages``: huge pages of whatever size is the
    host's own default. ``arguments``: it gives QEMU arguments of its own. ``system`` is libosinfo's
    id of what its guest is. ``vfs`` are those of its NICs that are VFs, by their place among all.
    """

    name: str
    kind: str
    vcpus: int
    memory_mib: int
    firmware: str
    devices: tuple[GivenDevice, ...] = ()
    nics: tuple[NicSpec | None, ...] = ()
    pins: tuple[int, ...] = ()
    numa_node: int | None = None
    preferred_node: int | None = None
    hugepage_kib: int | None = None
    default_pages: bool = False
    console: bool = False
    screen: Screen | None = None
    password: bool = False
    optional_devices: tuple[str, ...] = ()
    secure_boot: bool = False
    cpu_model: str | None = None
    cpu_shares: int | None = None
    arguments: bool = False
    system: str = ""
    vfs: Mapping[int, DomainNic] = field(default_factory=dict)


def described(xml: str) -> Described:
    """Read it. ValueError where the text is no domain that libvirt could have printed."""
    domain = untrusted(xml, "domain")
    vcpus = int(domain.findtext("vcpu") or "1")
    return Described(
        name=domain.findtext("name") or "",
        kind=domain.get("type", ""),
        vcpus=vcpus,
        memory_mib=-(-memory_bytes(domain.find("memory")) // 2**20),
        firmware=firmware(domain),
        devices=tuple(_devices(domain)),
        nics=tuple(map(_nic, domain.iterfind("devices/interface"))),
        vfs=dict(_vfs(domain)),
        pins=_pins(domain, vcpus),
        numa_node=_number(_attribute(domain, "numatune/memory[@mode='strict']", "nodeset")),
        preferred_node=_number(_attribute(domain, "numatune/memory[@mode='preferred']", "nodeset")),
        hugepage_kib=_hugepage_kib(domain),
        default_pages=_has_default_pages(domain),
        console=domain.find("devices/graphics[@type='vnc']") is not None,
        screen=domain_screen(domain),
        password=domain.find("devices/graphics[@passwd]") is not None,
        optional_devices=optional_devices(domain),
        secure_boot=has_secure_boot(domain),
        cpu_model=cpu_model(domain),
        cpu_shares=cpu_shares(domain),
        arguments=domain.find(_QEMU_ARGUMENTS) is not None,
        system=system_id(domain),
    )


def _devices(domain: etree._Element) -> Iterator[GivenDevice]:
    for element in domain.iterfind("devices/*"):
        for address in element.iterfind("source/address"):
            if name := _name(address):
                yield GivenDevice(
                    device=name,
                    hostdev=element.tag == "hostdev",
                    managed=element.get("managed") == "yes",
                    display=element.get("display") == "on",
                )


def _name(address: etree._Element) -> str:
    if uuid := address.get("uuid"):
        return uuid.lower()
    return pci_address(address) if "slot" in address.attrib else ""


def _nic(nic: etree._Element) -> NicSpec | None:
    network = _attribute(nic, "source", "network")
    bridge = _attribute(nic, "source", "bridge")
    mac = _attribute(nic, "mac", "address").lower()
    match nic.get("type"):
        case "network" if network:
            return NicSpec(network=network, mac=mac, tuning=nic_tuning(nic))
        case "bridge" if bridge:
            return NicSpec(bridge=bridge, mac=mac, tuning=nic_tuning(nic))
        case _:
            return None


def _vfs(domain: etree._Element) -> Iterator[tuple[int, DomainNic]]:
    for number, nic in enumerate(domain.iterfind("devices/interface")):
        address = nic.find("source/address")
        if nic.get("type") == "hostdev" and address is not None and "slot" in address.attrib:
            mac = _attribute(nic, "mac", "address").lower()
            tuning = NicTuning(vlan=nic_tuning(nic).vlan)
            yield number, DomainNic(mac=mac, function=pci_address(address), tuning=tuning)


def _pins(domain: etree._Element, vcpus: int) -> tuple[int, ...]:
    found = {each.get("vcpu"): _number(each.get("cpuset")) for each in domain.iterfind(_PINS)}
    pins = [found.get(str(vcpu)) for vcpu in range(vcpus)]
    known = [each for each in pins if each is not None]
    return tuple(known) if len(known) == vcpus else ()


_PINS = "cputune/vcpupin"


def _has_default_pages(domain: etree._Element) -> bool:
    pages = domain.find("memoryBacking/hugepages")
    return pages is not None and pages.find("page") is None


def _hugepage_kib(domain: etree._Element) -> int | None:
    page = domain.find("memoryBacking/hugepages/page")
    if page is None:
        return None
    size = _number(page.get("size"))
    return (size and size * _PAGE_KIB.get(page.get("unit", "KiB"), 0)) or None


def _attribute(element: etree._Element, path: str, name: str) -> str:
    found = element.find(path)
    return "" if found is None else str(found.get(name) or "")


def _number(text: str | None) -> int | None:
    """A single number, not a set of them."""
    return int(text) if text and text.isdecimal() else None


def adopted(
    xml: str, mark: Ownership, *, memory_mib: int | None = None, vcpus: int | None = None
) -> str:
    """The domain with our mark; memory and vCPUs are written only where they are given.

    ValueError where the definition spreads what is to change over sockets or NUMA cells.
    """
    domain = untrusted(with_mark(xml, mark_text(mark)), "domain")
    if memory_mib is not None:
        _refuse(domain, "cpu/numa", "memory lies in NUMA cells of the guest")
        for tag in ("memory", "currentMemory"):
            for element in domain.findall(tag):
                element.set("unit", "KiB")
                element.text = str(memory_mib * 1024)
    if vcpus is not None:
        _refuse(domain, "cpu/topology", "vCPUs lie in a topology of sockets and cores")
        _refuse(domain, "cputune/vcpupin", "vCPUs are pinned one by one")
        vcpu = domain.find("vcpu")
        if vcpu is None:
            raise ValueError("its definition has no vCPUs")
        vcpu.attrib.pop("current", "")
        vcpu.text = str(vcpus)
    return etree.tostring(domain, encoding="unicode") + "\n"


def _refuse(domain: etree._Element, path: str, what: str) -> None:
    if domain.find(path) is not None:
        raise ValueError(f"its {what}")
