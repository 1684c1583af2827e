"""One domain device each: a plan's value → a filled template."""

from __future__ import annotations

from uuid import UUID

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


def hostdev(plan: Hostdev) -> Tree:
    """An mdev or a PCI function, ``managed='no'``; ValueError for a malformed UUID or address."""
    match plan:
        case MdevHostdev():
            return _mdev(plan)
        case PciHostdev():
            return _pci(plan)


def _mdev(plan: MdevHostdev) -> Tree:
    tree = template("domain/hostdev-mdev")
    tree.set("source/address/@uuid", str(UUID(plan.uuid)))
    if plan.display:
        tree.set("@display", "on")
        tree.set("@ramfb", "on")
    return tree


def _pci(plan: PciHostdev) -> Tree:
    address = PciAddress.parse(plan.address)
    tree = template("domain/hostdev-pci")
    tree.set("source/address/@domain", f"0x{address.domain:04x}")
    tree.set("source/address/@bus", f"0x{address.bus:02x}")
    tree.set("source/address/@slot", f"0x{address.slot:02x}")
    tree.set("source/address/@function", f"0x{address.function:x}")
    return tree
