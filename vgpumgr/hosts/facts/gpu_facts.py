"""The GPU parts of a probe: devices, mdev parents and NVML's answers joined into GpuFacts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.hosts.facts.answer import Answer
from vgpumgr.hosts.facts.mig_facts import mig
from vgpumgr.hosts.facts.vf_facts import TypeLists, virtual_functions
from vgpumgr.model.address import PciAddress
from vgpumgr.model.errors import OutcomeUnknown
from vgpumgr.model.gpu import GpuFacts, GpuHealth

_NOTHING = Answer({})


def gpus(probe: Answer) -> Iterator[GpuFacts]:
    """Every GPU of the host, then the mdev parents that are none of their functions.

    Raises OutcomeUnknown naming the part of the answer that makes no sense.
    """
    parents = {each.text("name"): each for each in probe.objects("parents")}
    nvml = {_address(each): each for each in probe.child("nvml").objects("gpus")}
    types = TypeLists(parents)
    listed = _fabric_ids(probe)
    functions: set[str] = set()
    for device in probe.objects("devices"):
        gpu = _pci_gpu(device, nvml.get(device.text("address"), _NOTHING), types)
        physical = listed.get(gpu.device) or listed.get(gpu.uuid or "")
        gpu = replace(gpu, module_id=physical or gpu.module_id)
        functions |= {gpu.device, *(vf.address for vf in gpu.vfs)}
        yield gpu
    for name, parent in parents.items():
        if name not in functions:
            yield _other_parent(name, parent, types)


def _fabric_ids(probe: Answer) -> dict[str, int]:
    """Physical ids by PCI address and UUID, where Fabric Manager says whose they are.

    It does on A100, where the module id may be another number; from H100 on it leaves both empty
    and the module id is the physical id (Fabric Manager User Guide).
    """
    found: dict[str, int] = {}
    for partition in probe.child("fabric").objects("partitions"):
        for gpu in partition.objects("gpus"):
            number = gpu.maybe_number("physical_id")
            for key in (gpu.maybe_text("uuid"), _address(gpu)):
                if key and number is not None:
                    found[key] = number
    return found


def _pci_gpu(device: Answer, nvml: Answer, types: TypeLists) -> GpuFacts:
    vendor_device = f"{device.text('vendor')}:{device.text('device')}"
    model = _model(vendor_device, device.text("subsystem"))
    sriov = device.child("sriov")
    return GpuFacts(
        device=device.text("address"),
        path=device.text("path"),
        model=model,
        vendor_device=vendor_device,
        uuid=nvml.maybe_text("uuid"),
        serial=nvml.maybe_text("serial"),
        numa_node=_node(device.maybe_number("numa_node")),
        memory_mib=nvml.maybe_number("memory_mib"),
        driver=device.maybe_text("driver"),
        iommu_group=device.maybe_number("iommu_group"),
        group_devices=device.texts("group_devices"),
        boot_vga=device.flag("boot_vga"),
        reset_methods=device.texts("reset_methods"),
        mdev_types=types.of(device.text("address")),
        siblings=tuple(each.text("address") for each in device.objects("siblings")),
        vf_types={str(t.number("id")): t.text("name") for t in sriov.objects("vgpu_types")},
        sriov_total=sriov.number("total"),
        vfs=virtual_functions(sriov, types),
        mig=mig(model, nvml.maybe_child("mig")),
        mixed_size=nvml.maybe_flag("mixed_size"),
        scheduler=nvml.maybe_text("scheduler"),
        vgpu_capabilities=nvml.texts("vgpu_capabilities"),
        ecc=nvml.maybe_flag("ecc"),
        module_id=nvml.maybe_number("module_id"),
        fabric_state=nvml.maybe_text("fabric_state"),
        nvlinks=nvml.maybe_number("nvlinks"),
        health=_health(nvml),
        health_detail=nvml.text("health_detail"),
    )


def _model(vendor_device: str, subsystem: str) -> str:
    """The catalogue's key, or the PCI id of a device that it does not hold."""
    board = catalog.board_by_pci(vendor_device, subsystem)
    other = catalog.sriov_board_by_pci(vendor_device)
    if board is not None:
        return board.key
    return vendor_device if other is None else other.key


def _other_parent(name: str, parent: Answer, types: TypeLists) -> GpuFacts:
    """A parent that is no display device: the kernel's samples, known by their name alone."""
    return GpuFacts(device=name, path=parent.text("path"), model=name, mdev_types=types.of(name))


def _health(nvml: Answer) -> GpuHealth:
    word = nvml.text("health", GpuHealth.OK)
    try:
        return GpuHealth(word)
    except ValueError:
        why = f"nvml.gpus: health of {nvml.text('address')}: {word[:80]!r} is no word of ours"
        message = "the helper's answer cannot be understood"
        raise OutcomeUnknown(message, why=why, next="vgpumgr doctor") from None


def _address(gpu: Answer) -> str:
    """NVML pads the domain to eight digits; sysfs does not."""
    text = gpu.text("address")
    try:
        return str(PciAddress.parse(text))
    except ValueError:
        return text


def _node(number: int | None) -> int | None:
    """The kernel's -1 means that the device belongs to no node."""
    return None if number is None or number < 0 else number
