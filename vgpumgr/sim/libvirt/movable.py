"""Which guests QEMU moves from a simulated host to another, and what refuses to.

Versions and kinds: gpu-facts §10 (as nova requires them); the samples: Linux samples/vfio-mdev. The
words are libvirt's and QEMU's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpumgr.model.migration import LiveMove
from vgpumgr.model.words import ranges
from vgpumgr.sim.drivers.mdev_parents import Sample
from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.libvirt.needs import Needs

_LIBVIRT, _QEMU, _KERNEL = (8, 6), (8, 1), (5, 18)
_MTTY_KERNEL = (6, 8)
_MDEV_TO_VF = (11, 0)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What a receiver compares with its own before it takes a device's state."""

    kind: str
    board: str = ""
    driver: str = ""
    ecc: bool = False


def refused_at_source(kernel: Kernel, needs: Needs) -> str:
    """Why libvirt does not even begin; empty where it does."""
    if needs.kinds and _older(kernel.host.versions.libvirt, _LIBVIRT):
        return f"cannot migrate a domain with <hostdev mode='subsystem' type='{needs.kinds[0]}'>"
    for device in needs.facts.devices:
        if why := _blocker(kernel, device):
            return f"Requested operation is not valid: cannot migrate domain: {device}: {why}"
    return ""


def refused_at_target(kernel: Kernel, needs: Needs) -> str:
    """Why the receiving QEMU does not start; empty where it does."""
    for device in needs.facts.devices:
        why = _blocker(kernel, device)
        if _older(kernel.host.versions.libvirt, _LIBVIRT):
            why = "this libvirt moves no VFIO device"
        if why:
            return f"internal error: qemu: vfio {device}: {why}"
        if any(each is kernel.mdevs.devices.get(device) for each in kernel.spoiled):
            return (
                f"internal error: qemu: vfio {device}: error while loading state: "
                "failed to set device state RESUMING: Bad file descriptor"
            )
    return ""


def other_guest(here: Needs, there: Needs, libvirt: str) -> str:
    """Where the target's XML is another guest (libvirt's ABI check); empty where it is not."""
    pairs = [
        ("domain uuid", here.facts.uuid, there.facts.uuid),
        ("domain name", here.facts.name, there.facts.name),
        ("domain vCPU max", here.facts.vcpus, there.facts.vcpus),
        ("domain max memory", here.facts.memory_mib, there.facts.memory_mib),
        ("NUMA cells", _cells(here), _cells(there)),
        ("domain hostdev device count", len(here.kinds), len(there.kinds)),
        ("domain disk count", len(here.disks), len(there.disks)),
    ]
    if _older(libvirt, _MDEV_TO_VF):
        kinds = zip(here.kinds, there.kinds, strict=False)
        pairs += [("host device subsystem", *each) for each in kinds]
    for what, ours, theirs in pairs:
        if ours != theirs:
            return f"unsupported configuration: Target {what} {theirs} does not match source {ours}"
    return ""


def _cells(needs: Needs) -> str:
    """The guest's cells as the check compares them: which node is behind one is the host's."""
    cells = [each for each in needs.memory if each.vcpus]
    return "; ".join(f"{ranges(each.vcpus)}: {each.mib} MiB" for each in cells) or "none"


def refused_disks(needs: Needs, move: LiveMove) -> str:
    """Why its disks keep it; hosts here share no storage."""
    targets = {disk.target for disk in needs.disks}
    if unknown := [each for each in move.copied if each not in targets]:
        return f"invalid argument: disk {unknown[0]} not found"
    if any(disk.exclusive and disk.target not in move.copied for disk in needs.disks):
        return "Unsafe migration: Migration without shared storage is unsafe"
    return ""


def not_taken(theirs: DeviceState, mine: DeviceState) -> str:
    """What the source hears of a receiver that gave up."""
    return (
        "operation failed: job 'migration out' unexpectedly failed: error while loading state for "
        "instance 0x0 of device 'vfio': load of migration failed: Input/output error "
        f"({theirs} was sent to {mine})"
    )


def states(kernel: Kernel, devices: Sequence[str]) -> tuple[DeviceState, ...]:
    """The devices in the guest's order."""
    return tuple(_state(kernel, device) for device in devices)


def _state(kernel: Kernel, device: str) -> DeviceState:
    gpu = kernel.gpu_of(device)
    if gpu is None:
        return DeviceState(kernel.mdevs.devices[device].type.id)
    vgpu = gpu.vgpu(device)
    assert vgpu is not None, "a domain runs with it"
    driver = kernel.host.versions.driver
    return DeviceState(vgpu.type.profile, gpu.model.key, driver, gpu.ecc.enabled)


def spoil(kernel: Kernel, devices: Sequence[str]) -> None:
    """The samples stay as a receiver is after a move that failed, until they are recreated."""
    found = (kernel.mdevs.devices.get(device) for device in devices)
    kernel.spoiled += [each for each in found if each and isinstance(each.parent, Sample)]


def _blocker(kernel: Kernel, device: str) -> str:
    """QEMU's reason (VFIO migration v2); empty for a device that can be moved."""
    versions = kernel.host.versions
    if _older(versions.qemu, _QEMU) or _older(versions.kernel, _KERNEL):
        return "VFIO migration is not supported in kernel"
    gpu = kernel.gpu_of(device)
    if gpu is not None and gpu.address in kernel.nvidia:
        return ""
    mdev = kernel.mdevs.devices.get(device)
    if (
        mdev is not None
        and mdev.parent.name == "mtty"
        and not _older(versions.kernel, _MTTY_KERNEL)
    ):
        return ""
    return "VFIO migration is not supported in kernel"


def _older(version: str, than: tuple[int, int]) -> bool:
    """``6.1.0-37-amd64``; what is no version is old."""
    parts = version.partition("-")[0].split(".")[:2]
    if len(parts) < 2 or not all(part.isdigit() for part in parts):
        return True
    return (int(parts[0]), int(parts[1])) < than
