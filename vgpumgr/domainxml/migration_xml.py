"""A domain's XML for the host that it migrates to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from lxml import etree

from vgpumgr.domainxml import ownership as mark
from vgpumgr.domainxml.disk_source import set_source_path, source_path
from vgpumgr.domainxml.domain_facts import pci_address
from vgpumgr.domainxml.domain_numa import seat_domain, unseat_domain
from vgpumgr.domainxml.xml_tree import clean, untrusted
from vgpumgr.model.domain import NumaSeat, Ownership
from vgpumgr.model.formats import PciAddress


def moved(
    xml: str,
    *,
    devices: Mapping[str, str],
    files: Mapping[str, str],
    ownership: Ownership,
    cpus: Sequence[int] = (),
    seat: NumaSeat | None = None,
) -> str:
    """The same domain in its new seat; for the live XML and for the persistent one.

    ``devices`` maps each host device it has now (mdev UUID or PCI address) to the one it gets,
    ``files`` the paths of disks that lie elsewhere there. ``cpus`` are the host CPUs to pin to,
    one per vCPU, or empty; ``seat`` is where it lies on the NUMA nodes there. NUMA cells of the
    guest stay as they are, each bound to a node of the seat.

    Only what the guest does not see is changed: the host's side of devices and disks, pinning, our
    mark. The rest is what libvirt holds a live migration to (``virDomainDefCheckABIStability``),
    which compares a hostdev's kind and its address *in the guest*, not which UUID or address it
    has on the host (an mdev may become a VF, and the other way round, from libvirt 11.0 on).

    Raises ValueError for a domain that is not ours, for a host device without a counterpart and
    a counterpart without a device, and for text that is no domain.
    """
    domain = untrusted(xml, "domain")
    mark.rewrite(domain, ownership)
    _devices(domain, devices)
    _disks(domain, files)
    unseat_domain(domain)
    seat_domain(domain, seat, cpus)
    return etree.tostring(domain, encoding="unicode") + "\n"


def _devices(domain: etree._Element, devices: Mapping[str, str]) -> None:
    left = dict(devices)
    for element in domain.iterfind("devices/*"):
        address = element.find("source/address")
        before = None if address is None else _host_device(address)
        if before is None:
            continue
        if before not in left:
            raise ValueError(f"host device {before}: no counterpart on the other host")
        _give(element, left.pop(before))
    if left:
        raise ValueError(f"host device {next(iter(left))}: the domain does not have it")


def _host_device(address: etree._Element) -> str | None:
    """The mdev's UUID or PCI address; None for a USB or SCSI device."""
    if uuid := address.get("uuid"):
        return uuid.lower()
    return pci_address(address) if "slot" in address.attrib else None


def _give(element: etree._Element, device: str) -> None:
    """The host's side of a hostdev; the ``<address>`` beside ``<source>`` is the guest's."""
    if element.tag != "hostdev":
        raise ValueError(f"a host device in <{element.tag}> is not moved")
    source = element.find("source")
    assert source is not None, "it has an address in it"
    for each in source.findall("address"):
        source.remove(each)
    try:
        uuid = str(UUID(device))
    except ValueError:
        _give_function(element, source, PciAddress.parse(device))
    else:
        _give_mdev(element, source, uuid)


def _give_mdev(element: etree._Element, source: etree._Element, uuid: str) -> None:
    if element.get("type") != "mdev":
        element.set("type", "mdev")
        element.set("model", "vfio-pci")
        for driver in element.findall("driver"):
            element.remove(driver)
    etree.SubElement(source, "address", uuid=uuid)


def _give_function(element: etree._Element, source: etree._Element, address: PciAddress) -> None:
    if element.get("type") != "pci":
        element.set("type", "pci")
        element.attrib.pop("model", "")
        element.insert(0, etree.Element("driver", name="vfio"))
    etree.SubElement(
        source,
        "address",
        domain=f"0x{address.domain:04x}",
        bus=f"0x{address.bus:02x}",
        slot=f"0x{address.slot:02x}",
        function=f"0x{address.function:x}",
    )


def _disks(domain: etree._Element, files: Mapping[str, str]) -> None:
    """Every path of a disk, those of its backing chain included."""
    for source in domain.iterfind("devices/disk//source"):
        if path := source_path(source):
            set_source_path(source, clean(files.get(path, path)))
