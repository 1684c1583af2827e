"""One domain device each: a plan's value → a filled template."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from vgpumgr.domainxml.since import knows
from vgpumgr.domainxml.template import Tree, template
from vgpumgr.model.address import PciAddress
from vgpumgr.model.domain import DomainDisk, DomainNic, Hostdev, MdevHostdev, PciHostdev


def disk(plan: DomainDisk) -> Tree:
    """A virtio disk, or a SATA CD-ROM; the format is always declared."""
    tree = template("domain/cdrom" if plan.cdrom else "domain/disk")
    tree.set("driver/@type", plan.format)
    tree.set("source/@file", plan.path)
    tree.set("target/@dev", plan.target)
    return tree


def nic(plan: DomainNic) -> Tree:
    """A virtio NIC; ValueError unless exactly one of network and bridge is given."""
    if (plan.network is None) == (plan.bridge is None):
        raise ValueError(f"NIC {plan.mac}: exactly one of network and bridge")
    if plan.network is not None:
        tree = template("domain/nic-network")
        tree.set("source/@network", plan.network)
    else:
        tree = template("domain/nic-bridge")
        tree.set("source/@bridge", plan.bridge or "")
    tree.set("mac/@address", plan.mac.lower())
    return tree


def hostdevs(plans: Sequence[Hostdev], libvirt: str) -> Iterator[Tree]:
    """Mdevs and PCI functions, ``managed='no'``.

    Functions that follow another one share its slot in the guest, on a bus of their own. Raises
    ValueError for a malformed UUID or address.
    """
    slots = guest_slots(plans)
    for plan in plans:
        match plan:
            case MdevHostdev():
                yield _mdev(plan)
            case PciHostdev():
                yield _pci(plan, slots.get(plan.follows or plan.address), libvirt)


def guest_slots(plans: Iterable[Hostdev]) -> dict[str, int]:
    """The guest bus of each function that others follow, by its host address."""
    leaders = dict.fromkeys(p.follows for p in plans if isinstance(p, PciHostdev) and p.follows)
    return {address: bus for bus, address in enumerate(leaders, start=1)}


def shows(plan: Hostdev, libvirt: str) -> bool:
    """Does the device drive the guest's display on a host with this libvirt?"""
    if isinstance(plan, PciHostdev) and not knows(libvirt, "hostdev pci display"):
        return False
    return plan.display


def _mdev(plan: MdevHostdev) -> Tree:
    tree = template("domain/hostdev-mdev")
    tree.set("source/address/@uuid", str(UUID(plan.uuid)))
    if plan.display:
        tree.set("@display", "on")
        tree.set("@ramfb", "on")
    return tree


def _pci(plan: PciHostdev, bus: int | None, libvirt: str) -> Tree:
    address = PciAddress.parse(plan.address)
    tree = template("domain/hostdev-pci")
    if shows(plan, libvirt):
        tree.set("@display", "on")
        tree.set("@ramfb", "on")
    tree.set("source/address/@domain", f"0x{address.domain:04x}")
    tree.set("source/address/@bus", f"0x{address.bus:02x}")
    tree.set("source/address/@slot", f"0x{address.slot:02x}")
    tree.set("source/address/@function", f"0x{address.function:x}")
    if bus is not None:
        tree.append("", _guest_slot(bus, address.function))
    return tree


def _guest_slot(bus: int, function: int) -> Tree:
    """Function 0 tells the guest that there are more."""
    tree = template("domain/guest-slot")
    tree.set("@bus", f"0x{bus:02x}")
    tree.set("@function", f"0x{function:x}")
    if function == 0:
        tree.set("@multifunction", "on")
    return tree
