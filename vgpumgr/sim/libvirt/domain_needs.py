"""The needs of a domain by its XML (devices, disks, memory, CPU), and refusals at definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lxml import etree

from vgpumgr import domainxml
from vgpumgr.domainxml.disk_source import source_path
from vgpumgr.domainxml.domain_facts import memory_bytes, pci_address
from vgpumgr.domainxml.domain_numa import numbers_of
from vgpumgr.domainxml.foreign_domains import X86_HUGEPAGE_KIB
from vgpumgr.domainxml.plan_xml import optional_devices
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.formats import PciAddress
from vgpumgr.model.host import MachineFeature
from vgpumgr.model.sim_fleet import SimHost


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk image, in the guest as ``target``; ``exclusive`` where QEMU takes the write lock."""

    path: str
    exclusive: bool
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPiece:
    """Some of a domain's memory: from ``nodes`` alone where ``strict``, else from there first.

    ``vcpus`` are those of the guest's cell; empty where the guest has no cells.
    """

    mib: int
    nodes: frozenset[int] = frozenset()
    strict: bool = True
    vcpus: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NicFunctionNeed:
    """A NIC that is a VF, and what libvirt has its PF set; ``managed``: libvirt binds it itself."""

    address: str
    mac: str
    vlan: int
    managed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """``facts`` as domainxml reads them, and the rest that a start depends on.

    ``managed`` are the PCI functions that libvirt is to bind by itself, ``kinds`` its host devices'
    kinds (``mdev``, ``pci``) in order, ``cpu_mode`` and ``cpu_model`` what its ``<cpu>`` says,
    ``agent`` whether there is a channel for a guest agent. ``memory`` is where its memory comes
    from, in one piece or by cells of the guest.
    """

    facts: DomainFacts
    kvm: bool
    huge_kib: int | None
    memory: tuple[MemoryPiece, ...]
    cpus: frozenset[int]
    disks: tuple[Disk, ...]
    networks: tuple[str, ...]
    bridges: tuple[str, ...]
    filters: tuple[str, ...] = ()
    nics: tuple[NicFunctionNeed, ...] = ()
    features: frozenset[MachineFeature] = frozenset()
    managed: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ()
    cpu_mode: str = ""
    cpu_model: str = ""
    agent: bool = False


def read_needs(xml: str) -> Needs:
    """Read them; ValueError for what libvirt could not have accepted."""
    domain = untrusted(xml, "domain")
    sources = domain.findall("devices/interface/source")
    cpu = domain.find("cpu")
    return Needs(
        facts=domainxml.parse(xml),
        kvm=domain.get("type") == "kvm",
        huge_kib=_huge_kib(domain),
        memory=tuple(_memory(domain)),
        cpus=_numbers(domain, "cputune/*", "cpuset") | _numbers(domain, "vcpu", "cpuset"),
        disks=tuple(_disks(domain)),
        networks=tuple(name for each in sources if (name := each.get("network"))),
        bridges=tuple(name for each in sources if (name := each.get("bridge"))),
        filters=tuple(each.get("filter", "") for each in domain.iterfind(_FILTERS)),
        nics=tuple(map(_nic, domain.iterfind("devices/interface[@type='hostdev']"))),
        features=frozenset(_features(domain)),
        managed=frozenset(_managed(domain)),
        kinds=tuple(each.get("type", "") for each in domain.iterfind("devices/hostdev")),
        cpu_mode="" if cpu is None else cpu.get("mode", ""),
        cpu_model=domain.findtext("cpu/model") or "",
        agent="agent" in optional_devices(domain),
    )


_FILTERS = "devices/interface/filterref"
_SIGNED = "os/firmware/feature[@name='secure-boot'][@enabled='yes']"


def _features(domain: etree._Element) -> Iterator[MachineFeature]:
    if domain.find("devices/tpm") is not None:
        yield MachineFeature.TPM
    if domain.find(_SIGNED) is not None:
        yield MachineFeature.SECURE_BOOT
    if domain.find("devices/interface[@type='bridge']/vlan") is not None:
        yield MachineFeature.BRIDGE_VLAN


def _huge_kib(domain: etree._Element) -> int | None:
    """The page size (x86's default where none is named), or None for ordinary pages."""
    if domain.find("memoryBacking/hugepages") is None:
        return None
    page = domain.find("memoryBacking/hugepages/page")
    if page is None:
        return X86_HUGEPAGE_KIB
    factor = {"KiB": 1, "MiB": 1 << 10, "M": 1 << 10, "GiB": 1 << 20, "G": 1 << 20}
    return int(page.get("size", "0")) * factor[page.get("unit", "KiB")]


def _disks(domain: etree._Element) -> Iterator[Disk]:
    for disk in domain.iterfind("devices/disk"):
        source = disk.find("source")
        if path := source_path(source):
            shared = disk.find("readonly") is not None or disk.find("shareable") is not None
            target = disk.find("target")
            name = "" if target is None else target.get("dev", "")
            yield Disk(path=path, exclusive=not shared, target=name)


def with_files(xml: str, files: Mapping[str, str]) -> str:
    """The same domain with other files for these disks, by their targets."""
    domain = untrusted(xml, "domain")
    for disk in domain.iterfind("devices/disk"):
        target, source = disk.find("target"), disk.find("source")
        name = "" if target is None else target.get("dev", "")
        if source is not None and name in files:
            source.set("file", files[name])
    return etree.tostring(domain, encoding="unicode")


def _managed(domain: etree._Element) -> Iterator[str]:
    for source in domain.iterfind("devices/hostdev[@type='pci'][@managed='yes']/source/address"):
        parts = [int(source.get(name, "0"), 16) for name in ("domain", "bus", "slot", "function")]
        yield str(PciAddress(*parts))


def _nic(nic: etree._Element) -> NicFunctionNeed:
    address, mac, tag = nic.find("source/address"), nic.find("mac"), nic.find("vlan/tag")
    return NicFunctionNeed(
        address="" if address is None else pci_address(address),
        mac="" if mac is None else mac.get("address", ""),
        vlan=0 if tag is None else int(tag.get("id", "0")),
        managed=nic.get("managed") == "yes",
    )


def _memory(domain: etree._Element) -> Iterator[MemoryPiece]:
    """libvirt's own rule: a cell's memory is bound by its ``<memnode>``, else by ``<memory>``."""
    whole = domain.find("numatune/memory")
    nodes = {each.get("cellid"): each for each in domain.iterfind("numatune/memnode")}
    cells = domain.findall("cpu/numa/cell")
    for cell in cells:
        mib = memory_bytes(cell, cell.get("memory", "0")) >> 20
        piece = _piece(mib, nodes.get(cell.get("id"), whole))
        yield replace(piece, vcpus=numbers_of(cell.get("cpus", "")))
    if not cells:
        yield _piece(-(-memory_bytes(domain.find("memory")) // 2**20), whole)


def _piece(mib: int, tuning: etree._Element | None) -> MemoryPiece:
    if tuning is None or not tuning.get("nodeset"):
        return MemoryPiece(mib=mib)
    nodes = numbers_of(tuning.get("nodeset", ""))
    return MemoryPiece(mib=mib, nodes=nodes, strict=tuning.get("mode", "strict") == "strict")


def _numbers(domain: etree._Element, where: str, attribute: str) -> frozenset[int]:
    texts = (each.get(attribute) for each in domain.iterfind(where))
    return frozenset(number for text in texts if text for number in numbers_of(text))


def validated(host: SimHost, xml: str) -> Needs:
    """What the domain needs; HostRefused by libvirt's schema and parser, and without KVM."""
    doing = "cannot define the domain"
    try:
        problems = domainxml.validate(xml, libvirt=host.versions.libvirt).problems
        needs = read_needs(xml)
    except ValueError as error:
        raise HostRefused(doing, why=f"XML error: {error}") from error
    if problems:
        raise HostRefused(
            doing, why=f"XML document failed to validate against schema: {problems[0]}"
        )
    if needs.kvm and not host.kvm:
        raise HostRefused(
            doing,
            why="invalid argument: could not find capabilities for domaintype=kvm",
        )
    return needs


# Emulated models run everywhere.
_ANYWHERE = frozenset({"qemu64", "qemu32", "kvm64", "kvm32"})


def cpu_fits(host: SimHost, needs: Needs) -> bool | None:
    """None for a mode that takes the host's own CPU, and without ``<cpu>``.

    The simulation knows families by libvirt's word before the dash (``EPYC-Milan``) and no more.
    """
    if needs.cpu_mode != "custom" or not needs.cpu_model:
        return None
    family = needs.cpu_model.partition("-")[0]
    return needs.cpu_model in _ANYWHERE or family.lower() in host.cpu_model.lower()


def guest_notices(needs: Needs, here: SimHost, cpu_model: str) -> bool:
    """Would a guest that comes from a host with that CPU miss what it had?"""
    if needs.cpu_mode == "custom":
        return cpu_fits(here, needs) is False
    return needs.kvm and here.cpu_model != cpu_model
