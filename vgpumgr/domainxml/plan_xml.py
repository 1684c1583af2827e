"""Plans of domains and volumes rendered as XML that libvirt of the host's version understands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from lxml import etree

from vgpumgr.domainxml import domain_numa, ownership
from vgpumgr.domainxml.disk_source import write_source
from vgpumgr.domainxml.guest_system_xml import write_system
from vgpumgr.domainxml.libvirt_acceptance import knows
from vgpumgr.domainxml.xml_tree import XmlTree, template, untrusted
from vgpumgr.model.domain import (
    LIKE_HOST,
    PASSED_CPU,
    DiskTuning,
    DomainDisk,
    DomainNic,
    DomainPlan,
    Hostdev,
    MdevHostdev,
    NicTuning,
    PciHostdev,
    Screen,
    VolumePlan,
)
from vgpumgr.model.formats import PciAddress
from vgpumgr.model.host import Versions


def disk_element(plan: DomainDisk) -> XmlTree:
    """A virtio disk, or a CD-ROM; the format is always declared."""
    tree = template("domain/cdrom" if plan.cdrom else "domain/disk")
    if plan.scsi:
        tree.set("target/@bus", "scsi")
    tree.set("driver/@type", plan.format)
    write_source(tree, plan)
    tree.set("target/@dev", plan.target)
    if plan.boot_order:
        tree.add("", "boot", order=plan.boot_order)
    _tune_disk(tree, plan.tuning)
    return tree


def _tune_disk(tree: XmlTree, tuning: DiskTuning) -> None:
    if tuning.cache:
        tree.set("driver/@cache", tuning.cache)
    if tuning.serial:
        tree.add("", "serial", tuning.serial)
    limits = {"total_bytes_sec": tuning.bytes_s, "total_iops_sec": tuning.iops}
    if any(limits.values()):
        tree.add("", "iotune")
    for name, limit in limits.items():
        if limit:
            tree.add("iotune", name, limit)


def nic_element(plan: DomainNic) -> XmlTree:
    """A NIC; ValueError unless exactly one of network, bridge and function is given, or for a
    malformed address.
    """
    if sum((plan.network is not None, plan.bridge is not None, bool(plan.function))) != 1:
        raise ValueError(f"NIC {plan.mac}: exactly one of network, bridge and function")
    if plan.function:
        return _nic_function(plan)
    if plan.network is not None:
        tree = template("domain/nic-network")
        tree.set("source/@network", plan.network)
    else:
        tree = template("domain/nic-bridge")
        tree.set("source/@bridge", plan.bridge or "")
    tree.set("mac/@address", plan.mac.lower())
    _tune_nic(tree, plan.tuning)
    return tree


def _nic_function(plan: DomainNic) -> XmlTree:
    """A VF that libvirt binds itself: it has the PF set its MAC address and its VLAN."""
    tree = template("domain/nic-hostdev")
    tree.set("mac/@address", plan.mac.lower())
    _set_address(tree, PciAddress.parse(plan.function))
    if plan.tuning.vlan:
        tree.add("", "vlan")
        tree.add("vlan", "tag", id=plan.tuning.vlan)
    return tree


def _set_address(tree: XmlTree, address: PciAddress) -> None:
    tree.set("source/address/@domain", f"0x{address.domain:04x}")
    tree.set("source/address/@bus", f"0x{address.bus:02x}")
    tree.set("source/address/@slot", f"0x{address.slot:02x}")
    tree.set("source/address/@function", f"0x{address.function:x}")


def _tune_nic(tree: XmlTree, tuning: NicTuning) -> None:
    tree.set("model/@type", tuning.model)
    if tuning.vlan:
        tree.add("", "vlan")
        tree.add("vlan", "tag", id=tuning.vlan)
    if tuning.filter:
        tree.add("", "filterref", filter=tuning.filter)
    limits = {"inbound": tuning.inbound_kib_s, "outbound": tuning.outbound_kib_s}
    if any(limits.values()):
        tree.add("", "bandwidth")
    for way, limit in limits.items():
        if limit:
            tree.add("bandwidth", way, average=limit)


def hostdev_elements(plans: Sequence[Hostdev], libvirt: str) -> Iterator[XmlTree]:
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


def _mdev(plan: MdevHostdev) -> XmlTree:
    tree = template("domain/hostdev-mdev")
    tree.set("source/address/@uuid", str(UUID(plan.uuid)))
    if plan.display:
        tree.set("@display", "on")
        tree.set("@ramfb", "on")
    return tree


def _pci(plan: PciHostdev, bus: int | None, libvirt: str) -> XmlTree:
    address = PciAddress.parse(plan.address)
    tree = template("domain/hostdev-pci")
    if shows(plan, libvirt):
        tree.set("@display", "on")
        tree.set("@ramfb", "on")
    _set_address(tree, address)
    if bus is not None:
        tree.append("", _guest_slot(bus, address.function))
    return tree


def _guest_slot(bus: int, function: int) -> XmlTree:
    """Function 0 tells the guest that there are more."""
    tree = template("domain/guest-slot")
    tree.set("@bus", f"0x{bus:02x}")
    tree.set("@function", f"0x{function:x}")
    if function == 0:
        tree.set("@multifunction", "on")
    return tree


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalDevice:
    """The device of a switch of VmSpec, the ``key``, whose template has the same name.

    A domain has it where it has an element at ``path``. ``since`` names for a tag of the template
    the feature of libvirt that it takes: what a host's libvirt does not know is left out.
    """

    key: str
    path: str
    since: Mapping[str, str] = field(default_factory=dict)


_OPTIONAL = (
    OptionalDevice(key="agent", path="devices/channel/target[@name='org.qemu.guest_agent.0']"),
    OptionalDevice(key="tpm", path="devices/tpm"),
    OptionalDevice(key="audio", path="devices/sound", since={"audio": "audio backend"}),
)
OPTIONAL_DEVICES = tuple(each.key for each in _OPTIONAL)
"""The switches of VmSpec that are a device each."""


def _add_optional(tree: XmlTree, keys: Iterable[str], libvirt: str) -> None:
    """Add the devices of these keys to a domain, as far as that libvirt knows them.

    Raises:
        ValueError: a key is none of :data:`OPTIONAL_DEVICES`.
    """
    wanted = set(keys)
    if unknown := wanted.difference(OPTIONAL_DEVICES):
        raise ValueError(f"not optional devices: {sorted(unknown)}")
    for device in _OPTIONAL:
        if device.key in wanted:
            for element in template(f"domain/{device.key}").root:
                feature = device.since.get(str(element.tag), "")
                if not feature or knows(libvirt, feature):
                    tree.append("devices", XmlTree(element))


def optional_devices(domain: etree._Element) -> tuple[str, ...]:
    """The keys of the devices that a domain has."""
    return tuple(each.key for each in _OPTIONAL if domain.find(each.path) is not None)


_FORMATS = {"raw", "qcow2"}


def volume(plan: VolumePlan) -> str:
    """The volume's XML, thinly provisioned; an overlay names its backing file *and* its format. A
    qcow2 file is of version 3, in which QEMU may keep what was written since a backup.

    Raises ValueError for an unknown format, an overlay that is not qcow2 or has no source.
    """
    if plan.format not in _FORMATS or plan.capacity_bytes < 0:
        raise ValueError(f"volume {plan.name!r}: raw or qcow2, and a size that is not negative")
    tree = template("volume/volume")
    tree.set("name", plan.name)
    tree.set("capacity", plan.capacity_bytes)
    tree.set("target/format/@type", plan.format)
    if plan.format != "qcow2":
        tree.drop("target/compat")
    if plan.mode != "overlay":
        tree.drop("backingStore")
        return tree.text()
    if plan.format != "qcow2" or not plan.source_path or plan.source_format not in _FORMATS:
        raise ValueError(f"overlay {plan.name!r}: qcow2, on a path of declared format")
    tree.set("backingStore/path", plan.source_path)
    tree.set("backingStore/format/@type", plan.source_format)
    return tree.text()


def volume_name(xml: str) -> str:
    """The name in a volume's XML; ValueError where it has none."""
    found = untrusted(xml, "volume").findtext("name")
    if not found:
        raise ValueError("a volume without a name")
    return str(found)


def render(plan: DomainPlan, versions: Versions) -> str:
    """The domain's XML.

    Raises ValueError for a plan that contradicts itself, a malformed UUID or address, or text
    with control characters.
    """
    _check(plan)
    tree = template("domain/q35")
    tree.set("name", plan.name)
    tree.set("uuid", str(UUID(plan.uuid)))
    ownership.write(tree, plan.ownership, plan.labels)
    _memory(tree, plan)
    _cpu(tree, plan, versions.libvirt)
    _firmware(tree, plan, versions.libvirt)
    _pci_window(tree, plan, versions.libvirt)
    _devices(tree, plan, versions.libvirt)
    if plan.system is not None:
        kvm = plan.accelerator == "kvm"
        write_system(tree, plan.system, kvm=kvm, libvirt=versions.libvirt)
    return tree.text()


def _check(plan: DomainPlan) -> None:
    displays = sum(each.display for each in plan.hostdevs)
    problems = {
        f"accelerator {plan.accelerator!r}: kvm or tcg": plan.accelerator not in {"kvm", "tcg"},
        f"firmware {plan.firmware!r}: uefi or bios": plan.firmware not in {"uefi", "bios"},
        "vcpus and memory must be positive": plan.vcpus < 1 or plan.memory_mib < 1,
        "one host CPU per vCPU, or none": len(plan.cpus) not in {0, plan.vcpus},
        "its NUMA cells are not all of it": not _adds_up(plan),
        f"display on {displays} vGPUs: at most one": displays > 1,
        "a display on a vGPU needs graphics": displays > 0 and not plan.graphics,
        "secure boot takes UEFI": plan.secure_boot and plan.firmware != "uefi",
        "a function follows one that is not there": not _followed(plan) <= _addresses(plan),
    }
    for problem, found in problems.items():
        if found:
            raise ValueError(f"domain {plan.name!r}: {problem}")


def _adds_up(plan: DomainPlan) -> bool:
    """Every vCPU and every MiB lies in one of the shares, where there are several."""
    shares = plan.seat.shares if plan.seat else ()
    vcpus = sorted(vcpu for share in shares for vcpu in share.vcpus)
    memory = sum(share.memory_mib for share in shares)
    whole = vcpus == list(range(plan.vcpus)) and memory == plan.memory_mib
    return len(shares) < 2 or (whole and all(share.vcpus for share in shares))


def _followed(plan: DomainPlan) -> set[str]:
    return {p.follows for p in plan.hostdevs if isinstance(p, PciHostdev) and p.follows}


def _addresses(plan: DomainPlan) -> set[str]:
    return {p.address for p in plan.hostdevs if isinstance(p, PciHostdev) and not p.follows}


def _memory(tree: XmlTree, plan: DomainPlan) -> None:
    tree.set("memory", plan.memory_mib * 1024)
    tree.set("currentMemory", plan.memory_mib * 1024)
    if plan.hugepage_kib is None:
        tree.drop("memoryBacking")
    else:
        tree.set("memoryBacking/hugepages/page/@size", plan.hugepage_kib)


def _cpu(tree: XmlTree, plan: DomainPlan, libvirt: str) -> None:
    tree.set("vcpu", plan.vcpus)
    tree.set("cpu/topology/@cores", plan.vcpus)
    if plan.accelerator == "tcg":
        tree.set("@type", "qemu")
        _emulated_cpu(tree, libvirt)
    else:
        _cpu_model(tree, plan.cpu_model)
    if plan.seat and len(plan.seat.shares) > 1:
        domain_numa.add_cells(tree.root, plan.seat.shares)
    domain_numa.seat_domain(tree.root, plan.seat, plan.cpus)
    if plan.cpu_shares is not None:
        _weigh(tree, plan.cpu_shares)


def _cpu_model(tree: XmlTree, model: str) -> None:
    if model in {PASSED_CPU, LIKE_HOST}:
        tree.set("cpu/@mode", model)
        return
    tree.set("cpu/@mode", "custom")
    tree.set("cpu/@match", "exact")
    tree.add("cpu", "model", model, fallback="forbid")


def _weigh(tree: XmlTree, shares: int) -> None:
    if tree.root.find("cputune") is None:
        tree.add("", "cputune")
    tree.add("cputune", "shares", shares)


def _emulated_cpu(tree: XmlTree, libvirt: str) -> None:
    if knows(libvirt, "cpu mode=maximum"):
        tree.set("cpu/@mode", "maximum")
        return
    tree.set("cpu/@mode", "custom")
    tree.set("cpu/@match", "exact")
    tree.add("cpu", "model", "qemu64", fallback="forbid")


def _firmware(tree: XmlTree, plan: DomainPlan, libvirt: str) -> None:
    if plan.firmware == "bios":
        tree.drop("os/@firmware")
    if plan.secure_boot:
        tree.set("os/firmware/feature[@name='secure-boot']/@enabled", "yes")
        tree.add("os/firmware", "feature", enabled="yes", name="enrolled-keys")
        tree.add("features", "smm", state="on")
    if plan.firmware == "bios" or not knows(libvirt, "os/firmware/feature"):
        tree.drop("os/firmware")


def _pci_window(tree: XmlTree, plan: DomainPlan, libvirt: str) -> None:
    """Room for large BARs: the host's address width, and a 64-bit hole of the size asked for.

    OVMF sizes its window by the address width (edk2-stable202211 and later), the hole is what
    ACPI tells the guest. libvirt reserves OVMF's own knob (``opt/ovmf/…``) and refuses it.
    """
    root = "devices/controller[@model='pcie-root']"
    if plan.mmio64_mib > 0:
        tree.set(f"{root}/pcihole64", plan.mmio64_mib * 1024)
    else:
        tree.drop(f"{root}/pcihole64")
    passed = plan.accelerator == "kvm" and plan.cpu_model == PASSED_CPU
    passthrough = passed and knows(libvirt, "cpu/maxphysaddr")
    if plan.mmio64_mib <= 0 or not passthrough:
        tree.drop("cpu/maxphysaddr")


def _devices(tree: XmlTree, plan: DomainPlan, libvirt: str) -> None:
    if any(disk.boot_order for disk in plan.disks):
        tree.drop("os/boot")  # libvirt takes one of the two
    for disk in plan.disks:
        tree.append("devices", disk_element(disk))
    if any(disk.scsi for disk in plan.disks):
        tree.append("devices", template("domain/virtio-scsi"))
    for nic in plan.nics:
        tree.append("devices", nic_element(nic))
    for hostdev in hostdev_elements(plan.hostdevs, libvirt):
        tree.append("devices", hostdev)
    if plan.hostdevs or any(nic.function for nic in plan.nics):
        tree.set("devices/memballoon/@model", "none")
    if not knows(libvirt, "watchdog itco"):
        tree.drop("devices/watchdog")
    if plan.graphics:
        _graphics(tree, plan.screen, shown_by_gpu=any(shows(p, libvirt) for p in plan.hostdevs))
    _add_optional(tree, plan.optional_devices, libvirt)


def _graphics(tree: XmlTree, screen: Screen | None, *, shown_by_gpu: bool) -> None:
    """A VNC console; an emulated adapter where no vGPU can show on it. Of the adapters with several
    heads virtio's alone has drivers in every guest's kernel, and firmware shows on it.
    """
    tree.append("devices", template("domain/graphics"))
    tree.append("devices", template("domain/tablet"))
    tree.set("devices/controller[@type='usb']/@model", "qemu-xhci")
    if shown_by_gpu:
        return
    several = screen is not None and screen.heads > 1
    tree.set("devices/video/model/@type", "virtio" if several else "vga")
    if screen is None:
        return
    tree.set("devices/video/model/@heads", screen.heads)
    if screen.width:
        tree.add("devices/video/model", "resolution", x=screen.width, y=screen.height)
