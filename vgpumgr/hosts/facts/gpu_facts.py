"""The GPU parts of a probe: devices, mdev parents and NVML's answers joined into GpuFacts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.hosts.facts.answer import MOST_MIB, Answer
from vgpumgr.hosts.facts.mig_facts import mig
from vgpumgr.hosts.facts.vf_facts import (
    MOST_GROUP,
    MOST_RESETS,
    MOST_TYPE_ID,
    MOST_VFS,
    TypeLists,
    virtual_functions,
)
from vgpumgr.model.address import PciAddress
from vgpumgr.model.gpu import GpuFacts, GpuHealth
from vgpumgr.model.layout import Scheduler

# More than any chassis holds; a host that says more is not believed.
MOST_GPUS = 64
_MOST_NODE = 1024
_MOST_IN_GROUP = 256
_MOST_CAPABILITIES = 64
_MOST_LINKS = 256
_NOTHING = Answer({})


def gpus(probe: Answer) -> Iterator[GpuFacts]:
    """Every GPU of the host, then the mdev parents that are none of their functions.

    Raises OutcomeUnknown naming the part of the answer that makes no sense.
    """
    parents = _by(probe, "parents", "name", MOST_GPUS + MOST_VFS)
    nvml = _told_by_nvml(probe.child("nvml"))
    types = TypeLists(parents)
    listed = _fabric_ids(probe)
    found: list[GpuFacts] = []
    for device in probe.objects("devices", most=MOST_GPUS):
        gpu = _pci_gpu(device, nvml.get(device.address("address")), types)
        physical = listed.get(gpu.device) or listed.get(gpu.uuid or "")
        found.append(replace(gpu, module_id=physical or gpu.module_id))
    functions = [each for gpu in found for each in (gpu.device, *(vf.address for vf in gpu.vfs))]
    probe.once("devices", functions)
    probe.once("nvml.gpus", (gpu.uuid for gpu in found if gpu.uuid))
    yield from found
    others = parents.keys() - set(functions)
    if len(found) + len(others) > MOST_GPUS:
        raise probe.nonsense("parents", f"{len(others)} entries", f"at most {MOST_GPUS} GPUs")
    for name, parent in parents.items():
        if name in others:
            yield _other_parent(name, parent, types)


def _by(told: Answer, key: str, name: str, most: int) -> dict[str, Answer]:
    """The objects of a list by what names each of them."""
    found = [(each.text(name), each) for each in told.objects(key, most=most)]
    told.once(key, (named for named, _ in found))
    return dict(found)


def _told_by_nvml(nvml: Answer) -> dict[str, Answer]:
    found = [(_address(each), each) for each in nvml.objects("gpus", most=MOST_GPUS)]
    nvml.once("gpus", (address for address, _ in found))
    return dict(found)


def _fabric_ids(probe: Answer) -> dict[str, int]:
    """Physical ids by PCI address and UUID, where Fabric Manager says whose they are.

    It does on A100, where the module id may be another number; from H100 on it leaves both empty
    and the module id is the physical id (Fabric Manager User Guide).
    """
    found: dict[str, int] = {}
    for partition in probe.child("fabric").objects("partitions"):
        for gpu in partition.objects("gpus", most=MOST_GPUS):
            number = gpu.maybe_number("physical_id", most=MOST_GPUS)
            for key in (gpu.maybe_text("uuid"), _address(gpu)):
                if key and number is not None:
                    found[key] = number
    return found


def _pci_gpu(device: Answer, told: Answer | None, types: TypeLists) -> GpuFacts:
    nvml = told or _NOTHING
    scheduler = nvml.word("scheduler", Scheduler)
    vendor_device = f"{device.text('vendor')}:{device.text('device')}"
    model = _model(vendor_device, device.text("subsystem"))
    sriov = device.child("sriov")
    return GpuFacts(
        device=device.address("address"),
        path=device.text("path"),
        model=model,
        vendor_device=vendor_device,
        uuid=nvml.maybe_text("uuid"),
        serial=nvml.maybe_text("serial"),
        name=nvml.text("name"),
        numa_node=_node(device.maybe_number("numa_node", least=-1, most=_MOST_NODE)),
        memory_mib=nvml.maybe_number("memory_mib", most=MOST_MIB),
        driver=device.maybe_text("driver"),
        iommu_group=device.maybe_number("iommu_group", most=MOST_GROUP),
        group_devices=device.texts("group_devices", most=_MOST_IN_GROUP),
        boot_vga=device.flag("boot_vga"),
        reset_methods=device.texts("reset_methods", most=MOST_RESETS),
        mdev_types=types.of(device.address("address")),
        siblings=tuple(each.address("address") for each in device.objects("siblings", most=8)),
        vf_types=_vf_types(sriov),
        sriov_total=sriov.number("total", most=2**16),
        vfs=virtual_functions(sriov, types),
        mig=mig(model, nvml.maybe_child("mig")),
        mixed_size=nvml.maybe_flag("mixed_size"),
        scheduler=None if scheduler is None else str(scheduler),
        vgpu_capabilities=nvml.texts("vgpu_capabilities", most=_MOST_CAPABILITIES),
        ecc=nvml.maybe_flag("ecc"),
        module_id=nvml.maybe_number("module_id", most=2**16),
        fabric_state=nvml.maybe_text("fabric_state"),
        nvlinks=nvml.maybe_number("nvlinks", most=_MOST_LINKS),
        health=nvml.word("health", GpuHealth) or GpuHealth.UNKNOWN,
        health_detail=nvml.words("health_detail") or _silent(told),
    )


def _silent(told: Answer | None) -> str:
    """Why nothing is known of the health of a GPU that NVML was asked about."""
    return "NVML does not report it" if told is not None and not told.has("health") else ""


def _vf_types(sriov: Answer) -> dict[str, str]:
    listed = sriov.objects("vgpu_types")
    return {str(each.number("id", most=MOST_TYPE_ID)): each.text("name") for each in listed}


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
