"""Facts of a domain, ours or anybody's, and its file-backed disks, read from its XML."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from vgpumgr.domainxml import ownership
from vgpumgr.domainxml.disk_source import disk_type, source_path, source_server
from vgpumgr.domainxml.domain_tuning import boot_order, disk_tuning
from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.model.domain import DomainDisk, DomainFacts, DomainState
from vgpumgr.model.formats import PciAddress

# libvirt's units of memory; KiB is meant where none is written.
_UNIT_BYTES = {
    "b": 1, "bytes": 1,
    "KB": 10**3, "k": 2**10, "KiB": 2**10,
    "MB": 10**6, "M": 2**20, "MiB": 2**20,
    "GB": 10**9, "G": 2**30, "GiB": 2**30,
    "TB": 10**12, "T": 2**40, "TiB": 2**40,
}  # fmt: skip


def parse(xml: str) -> DomainFacts:
    """The facts a domain's XML tells: ``state`` is SHUTOFF, for the caller to replace.

    Raises ValueError for anything that is not a domain libvirt could have printed.
    """
    domain = untrusted(xml, "domain")
    name = domain.findtext("name")
    if not name:
        raise ValueError("a domain without a name")
    return DomainFacts(
        name=name,
        uuid=(domain.findtext("uuid") or "").lower(),
        state=DomainState.SHUTOFF,
        vcpus=int(domain.findtext("vcpu") or "1"),
        memory_mib=-(-memory_bytes(domain.find("memory")) // 2**20),
        devices=tuple(dict.fromkeys(_devices(domain))),
        ownership=ownership.read(domain),
    )


def memory_bytes(memory: etree._Element | None, number: str | None = None) -> int:
    """What a ``<memory>`` element says; 0 without one, ValueError for an unknown unit.

    ``number`` stands for its text where an attribute has the number.
    """
    if memory is None:
        return 0
    unit = memory.get("unit", "KiB")
    if unit not in _UNIT_BYTES:
        raise ValueError(f"memory in {unit!r}")
    return int((memory.text if number is None else number) or "0") * _UNIT_BYTES[unit]


def _devices(domain: etree._Element) -> Iterator[str]:
    """Host devices of any kind: hostdev, NIC on a VF, NVMe disk. USB and SCSI have no slot."""
    for address in domain.iterfind("devices/*/source/address"):
        if uuid := address.get("uuid"):
            yield uuid.lower()
        elif "slot" in address.attrib:
            yield pci_address(address)


def pci_address(address: etree._Element) -> str:
    """An ``<address>`` of a PCI function as the kernel prints it."""
    parts = ("domain", "bus", "slot", "function")
    return str(PciAddress(*(int(address.get(part, "0"), 0) for part in parts)))


def state_beside_disks(xml: str) -> str:
    """The part of a domain whose state a copy of its disks would leave out: ``TPM``; empty for
    none. Its NVRAM holds boot entries alone, which a guest makes again. ValueError for text
    that is no domain.
    """
    return "TPM" if untrusted(xml, "domain").find("devices/tpm") is not None else ""


def disk_files(xml: str) -> frozenset[str]:
    """Every path of a disk, those of its backing chain included. ValueError for no domain."""
    sources = untrusted(xml, "domain").iterfind("devices/disk//source")
    return frozenset(filter(None, map(source_path, sources)))


def disks(xml: str) -> tuple[DomainDisk, ...]:
    """In their order; one that is neither a file nor a volume that we make has an empty path.

    ValueError for no domain.
    """
    found = []
    for disk in untrusted(xml, "domain").iterfind("devices/disk"):
        source, driver, target = (disk.find(tag) for tag in ("source", "driver", "target"))
        found.append(
            DomainDisk(
                path=source_path(source),
                format=driver.get("type", "raw") if driver is not None else "raw",
                target=target.get("dev", "") if target is not None else "",
                cdrom=disk.get("device") == "cdrom",
                scsi=target is not None and target.get("bus") == "scsi",
                tuning=disk_tuning(disk),
                type=disk_type(disk),
                server=source_server(disk),
                boot_order=boot_order(disk),
            )
        )
    return tuple(found)
