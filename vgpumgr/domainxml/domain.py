"""A domain plan → domain XML that libvirt of the host's version understands."""

from __future__ import annotations

from uuid import UUID

from vgpumgr.domainxml import devices, numa, ownership
from vgpumgr.domainxml.since import knows
from vgpumgr.domainxml.template import Tree, template
from vgpumgr.model.domain import DomainPlan, PciHostdev
from vgpumgr.model.host import Versions


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


def _memory(tree: Tree, plan: DomainPlan) -> None:
    tree.set("memory", plan.memory_mib * 1024)
    tree.set("currentMemory", plan.memory_mib * 1024)
    if plan.hugepage_kib is None:
        tree.drop("memoryBacking")
    else:
        tree.set("memoryBacking/hugepages/page/@size", plan.hugepage_kib)


def _cpu(tree: Tree, plan: DomainPlan, libvirt: str) -> None:
    tree.set("vcpu", plan.vcpus)
    tree.set("cpu/topology/@cores", plan.vcpus)
    if plan.accelerator == "tcg":
        tree.set("@type", "qemu")
        _emulated_cpu(tree, libvirt)
    if plan.seat and len(plan.seat.shares) > 1:
        numa.add_cells(tree.root, plan.seat.shares)
    numa.seat_domain(tree.root, plan.seat, plan.cpus)


def _emulated_cpu(tree: Tree, libvirt: str) -> None:
    if knows(libvirt, "cpu mode=maximum"):
        tree.set("cpu/@mode", "maximum")
        return
    tree.set("cpu/@mode", "custom")
    tree.set("cpu/@match", "exact")
    tree.add("cpu", "model", "qemu64", fallback="forbid")


def _firmware(tree: Tree, plan: DomainPlan, libvirt: str) -> None:
    if plan.firmware == "bios":
        tree.drop("os/@firmware")
    if plan.firmware == "bios" or not knows(libvirt, "os/firmware/feature"):
        tree.drop("os/firmware")


def _pci_window(tree: Tree, plan: DomainPlan, libvirt: str) -> None:
    """Room for large BARs: the host's address width, and a 64-bit hole of the size asked for.

    OVMF sizes its window by the address width (edk2-stable202211 and later), the hole is what
    ACPI tells the guest. libvirt reserves OVMF's own knob (``opt/ovmf/…``) and refuses it.
    """
    root = "devices/controller[@model='pcie-root']"
    if plan.mmio64_mib > 0:
        tree.set(f"{root}/pcihole64", plan.mmio64_mib * 1024)
    else:
        tree.drop(f"{root}/pcihole64")
    passthrough = plan.accelerator == "kvm" and knows(libvirt, "cpu/maxphysaddr")
    if plan.mmio64_mib <= 0 or not passthrough:
        tree.drop("cpu/maxphysaddr")


def _devices(tree: Tree, plan: DomainPlan, libvirt: str) -> None:
    for disk in plan.disks:
        tree.append("devices", devices.disk(disk))
    for nic in plan.nics:
        tree.append("devices", devices.nic(nic))
    for hostdev in devices.hostdevs(plan.hostdevs, libvirt):
        tree.append("devices", hostdev)
    if plan.hostdevs:
        tree.set("devices/memballoon/@model", "none")
    if not knows(libvirt, "watchdog itco"):
        tree.drop("devices/watchdog")
    if plan.graphics:
        _graphics(tree, shown_by_gpu=any(devices.shows(p, libvirt) for p in plan.hostdevs))
    if plan.agent:
        tree.append("devices", template("domain/agent"))


def _graphics(tree: Tree, *, shown_by_gpu: bool) -> None:
    """A VNC console; an emulated adapter where no vGPU can show on it."""
    tree.append("devices", template("domain/graphics"))
    tree.append("devices", template("domain/tablet"))
    tree.set("devices/controller[@type='usb']/@model", "qemu-xhci")
    if not shown_by_gpu:
        tree.set("devices/video/model/@type", "vga")
