"""The GPUs of a probe: devices, VFs, MIG, mdev parents and NVML joined into GpuFacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from vgpumgr import catalog
from vgpumgr.hosts.facts.health_facts import readings
from vgpumgr.hosts.facts.typed_answer import MOST_MIB, TypedAnswer
from vgpumgr.model.formats import PciAddress
from vgpumgr.model.gpu import (
    ComputeInstance,
    GpuFacts,
    GpuHealth,
    GpuInstance,
    MdevType,
    MigFacts,
    MigProfile,
    MigType,
    PowerFacts,
    VendorVgpu,
    VfFacts,
)
from vgpumgr.model.layout import Scheduler

# PCI allows 65,535 VFs; the boards of the catalogue have up to 64. Types are a few dozen.
MOST_VFS = 1024
MOST_GROUP = 2**31 - 1
MOST_RESETS = 16
MOST_TYPE_ID = 2**31 - 1
_MOST_MDEV_TYPES = 512
_MOST_AVAILABLE = 1024
# No board draws 100 kW, and no clock is faster than 100 GHz.
_MOST_WATTS = _MOST_MHZ = 100_000


class TypeLists:
    """The types of mdev parents. The VFs of a GPU list the same ones, which come once."""

    def __init__(self, parents: Mapping[str, TypedAnswer]) -> None:
        self._parents = parents
        self._read: dict[str, tuple[MdevType, ...]] = {}

    def of(self, device: str) -> tuple[MdevType, ...]:
        """The types of one device; none where the device is no parent."""
        parent = self._parents.get(device)
        if parent is None:
            return ()
        name = parent.text("types_of", device)
        if name not in self._read:
            if name not in self._parents:
                raise parent.nonsense("types_of", name, "a parent that is listed")
            self._read[name] = _mdev_types(self._parents[name])
        return self._read[name]


def virtual_functions(sriov: TypedAnswer, types: TypeLists) -> tuple[VfFacts, ...]:
    """The VFs that are on, in the order of their numbers."""
    found = tuple(_function(each, types) for each in sriov.objects("vfs", most=MOST_VFS))
    sriov.once("vfs", (vf.number for vf in found))
    return tuple(sorted(found, key=lambda vf: vf.number))


def _mdev_types(parent: TypedAnswer) -> tuple[MdevType, ...]:
    found = tuple(_mdev_type(each) for each in parent.objects("types", most=_MOST_MDEV_TYPES))
    parent.once("types", (each.type_id for each in found))
    return found


def _mdev_type(each: TypedAnswer) -> MdevType:
    return MdevType(
        type_id=each.text("id"),
        name=each.text("name"),
        available=each.maybe_number("available", most=_MOST_AVAILABLE),
        device_api=each.text("device_api", "vfio-pci"),
        description=each.text("description"),
    )


def _function(vf: TypedAnswer, types: TypeLists) -> VfFacts:
    return VfFacts(
        number=vf.number("number", most=MOST_VFS - 1),
        address=vf.address("address"),
        driver=vf.maybe_text("driver"),
        iommu_group=vf.maybe_number("iommu_group", most=MOST_GROUP),
        reset_methods=vf.texts("reset_methods", most=MOST_RESETS),
        mdev_types=types.of(vf.text("address")),
        vendor=_vendor(vf.maybe_child("vgpu")),
    )


def _vendor(vgpu: TypedAnswer | None) -> VendorVgpu | None:
    if vgpu is None:
        return None
    listed = vgpu.numbers("creatable", count=_MOST_MDEV_TYPES, most=MOST_TYPE_ID)
    return VendorVgpu(
        creatable=listed if vgpu.has("creatable") else None,
        type_id=vgpu.maybe_number("type", most=MOST_TYPE_ID),
        instance=vgpu.maybe_number("instance", most=MOST_TYPE_ID),
        placement_id=vgpu.maybe_number("placement_id", most=MOST_TYPE_ID),
    )


# Boards have 4 to 12 slices and a score of profiles; ids of the driver are small numbers.
_MOST_SLICES = 64
_MOST_PROFILES = 256
_MOST_ID = 2**16
# NVIDIA lists some sixty types of a board; the largest has less than 1 TiB.
_MOST_TYPES = 256
_MOST_MIB = 2**20
_MOST_VGPUS = 256


def mig(model: str, answer: TypedAnswer | None) -> MigFacts | None:
    """MIG of a GPU of this model; None where it has none or its mode could not be read."""
    if answer is None:
        return None
    enabled, pending = answer.maybe_flag("enabled"), answer.maybe_flag("pending")
    if enabled is None or pending is None:
        return None
    board = _known(model)
    listed = answer.objects("profiles", most=_MOST_PROFILES)
    return MigFacts(
        enabled=enabled,
        pending=pending,
        profiles=tuple(_profile(each, board) for each in listed),
        instances=_instances(answer, board),
        types=None if catalog.board(model) else _types(answer),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """What the catalogue knows of a board: names and sizes of profiles by the driver's number, what
    older drivers call them, and the slices of its memory grid; as many as any board's where it
    does not hold it.
    """

    names: Mapping[int, str]
    earlier: Mapping[int, tuple[str, ...]]
    sizes: Mapping[int, int]
    grid: int


def _known(model: str) -> _Known:
    board = catalog.board(model)
    found = catalog.mig(board) if board else None
    if found is None:
        return _Known({}, {}, {}, _MOST_SLICES)
    names = {each.id: each.name for each in found.profiles}
    earlier = {each.id: each.earlier for each in found.profiles}
    return _Known(names, earlier, {each.id: each.size for each in found.profiles}, found.grid)


def _name(name: str, number: int, board: _Known) -> str:
    """The driver's name of a profile, or the catalogue's where that is an earlier name."""
    if not name or name in board.earlier.get(number, ()):
        return board.names.get(number) or f"profile-{number}"
    return name


def _profile(profile: TypedAnswer, board: _Known) -> MigProfile:
    """Of its places those that lie on the memory grid, by the catalogue's size, too."""
    profile.need("id", "size", "starts")
    number = profile.number("id", most=_MOST_ID)
    size = profile.number("size", 1, least=1, most=_MOST_SLICES)
    taken = max(size, board.sizes.get(number, 1))
    starts = profile.numbers("starts", count=_MOST_SLICES, most=_MOST_SLICES)
    return MigProfile(
        name=_name(profile.text("name"), number, board),
        profile_id=number,
        gpu_slices=profile.number("slices", most=_MOST_SLICES),
        size=size,
        starts=tuple(start for start in starts if start + taken <= board.grid),
        remaining=profile.maybe_number("remaining", most=_MOST_SLICES),
    )


def _types(answer: TypedAnswer) -> tuple[MigType, ...] | None:
    """The MIG-backed types of known size; None where the driver tells not every type's profile."""
    if not answer.has("types"):
        return None
    listed = list(answer.objects("types", most=_MOST_TYPES))
    answer.once("types", (each.number("id", most=MOST_TYPE_ID) for each in listed))
    return tuple(_type(each) for each in listed if each.has("name") and each.has("memory_mib"))


def _type(told: TypedAnswer) -> MigType:
    """A type; one per instance and one per VM where the driver does not tell of more."""
    told.need("id", "profile_id")
    return MigType(
        type_id=str(told.number("id", most=MOST_TYPE_ID)),
        profile=catalog.normalise(told.text("name")),
        profile_id=told.number("profile_id", most=_MOST_ID),
        memory_mib=told.number("memory_mib", least=1, most=_MOST_MIB),
        per_instance=told.maybe_number("per_instance", least=1, most=_MOST_VGPUS) or 1,
        per_vm=told.maybe_number("per_vm", least=1, most=_MOST_VGPUS) or 1,
    )


def _instances(answer: TypedAnswer, board: _Known) -> tuple[GpuInstance, ...] | None:
    """None where they could not be read: nothing may be concluded from their absence.

    That holds where they lie off the memory grid of the catalogue's board as well.
    """
    if not answer.has("instances"):
        return None
    listed = answer.objects("instances", most=_MOST_SLICES)
    found = tuple(_instance(each, board) for each in listed)
    answer.once("instances", (each.id for each in found))
    answer.once("instances", (at for it in found for at in range(it.start, it.start + it.size)))
    return found if all(each.start + each.size <= board.grid for each in found) else None


def _instance(instance: TypedAnswer, board: _Known) -> GpuInstance:
    instance.need("id", "profile_id", "start", "size")
    number = instance.number("profile_id", most=_MOST_ID)
    return GpuInstance(
        id=instance.number("id", most=_MOST_ID),
        profile=_name(instance.text("profile"), number, board),
        profile_id=number,
        start=instance.number("start", most=_MOST_SLICES),
        size=instance.number("size", 1, least=1, most=_MOST_SLICES),
        compute=tuple(_compute(each) for each in instance.objects("compute", most=_MOST_SLICES)),
    )


def _compute(told: TypedAnswer) -> ComputeInstance:
    return ComputeInstance(
        id=told.number("id", most=_MOST_ID), profile_id=told.number("profile_id", most=_MOST_ID)
    )


# More than any chassis holds; a host that says more is not believed.
MOST_GPUS = 64
_MOST_NODE = 1024
_MOST_IN_GROUP = 256
_MOST_CAPABILITIES = 64
_MOST_LINKS = 256
_NOTHING = TypedAnswer({})


def gpus(probe: TypedAnswer) -> Iterator[GpuFacts]:
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


def _by(told: TypedAnswer, key: str, name: str, most: int) -> dict[str, TypedAnswer]:
    """The objects of a list by what names each of them."""
    found = [(each.text(name), each) for each in told.objects(key, most=most)]
    told.once(key, (named for named, _ in found))
    return dict(found)


def _told_by_nvml(nvml: TypedAnswer) -> dict[str, TypedAnswer]:
    found = [(_address(each), each) for each in nvml.objects("gpus", most=MOST_GPUS)]
    nvml.once("gpus", (address for address, _ in found))
    return dict(found)


def _fabric_ids(probe: TypedAnswer) -> dict[str, int]:
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


def _timing(nvml: TypedAnswer) -> tuple[int, ...] | None:
    return None if nvml.word("scheduler", Scheduler) is None else _told_timing(nvml)


def _told_timing(nvml: TypedAnswer) -> tuple[int, ...] | None:
    """A helper of before tells none."""
    if nvml.maybe_flag("scheduler_timed") is None:
        return None
    return nvml.numbers("scheduler_timing", count=2, most=10**6)


def _pci_gpu(device: TypedAnswer, told: TypedAnswer | None, types: TypeLists) -> GpuFacts:
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
        vf_offset=sriov.maybe_number("offset", most=2**16),
        vf_stride=sriov.maybe_number("stride", most=2**16),
        vfs=virtual_functions(sriov, types),
        mig=mig(model, nvml.maybe_child("mig")),
        mixed_size=nvml.maybe_flag("mixed_size"),
        scheduler=None if scheduler is None else str(scheduler),
        scheduler_timing=_timing(nvml),
        vgpu_capabilities=nvml.texts("vgpu_capabilities", most=_MOST_CAPABILITIES),
        ecc=nvml.maybe_flag("ecc"),
        module_id=nvml.maybe_number("module_id", most=2**16),
        fabric_state=nvml.maybe_text("fabric_state"),
        nvlinks=nvml.maybe_number("nvlinks", most=_MOST_LINKS),
        health=nvml.word("health", GpuHealth) or GpuHealth.UNKNOWN,
        health_detail=nvml.words("health_detail") or _silent(told),
        readings=readings(device, nvml),
        power=_power(nvml.maybe_child("power")),
    )


def _power(told: TypedAnswer | None) -> PowerFacts | None:
    """OutcomeUnknown for bounds that do not enclose the default."""
    if told is None:
        return None
    names = ("limit_w", "default_w", "least_w", "most_w")
    limit, default, least, most = (told.number(name, most=_MOST_WATTS) for name in names)
    clocks = told.numbers("locked_clocks", most=_MOST_MHZ, count=2)
    if not least <= default <= most:
        raise told.nonsense("default_w", default, f"from {least} to {most}")
    return PowerFacts(
        limit_w=limit, default_w=default, least_w=least, most_w=most, locked_clocks=clocks
    )


def _silent(told: TypedAnswer | None) -> str:
    """Why nothing is known of the health of a GPU that NVML was asked about."""
    return "NVML does not report it" if told is not None and not told.has("health") else ""


def _vf_types(sriov: TypedAnswer) -> dict[str, str]:
    listed = sriov.objects("vgpu_types")
    return {str(each.number("id", most=MOST_TYPE_ID)): each.text("name") for each in listed}


def _model(vendor_device: str, subsystem: str) -> str:
    """The catalogue's key, or the PCI id of a device that it does not hold."""
    board = catalog.board_by_pci(vendor_device, subsystem)
    other = catalog.sriov_board_by_pci(vendor_device)
    if board is not None:
        return board.key
    return vendor_device if other is None else other.key


def _other_parent(name: str, parent: TypedAnswer, types: TypeLists) -> GpuFacts:
    """A parent that is no display device: the kernel's samples, known by their name alone."""
    return GpuFacts(device=name, path=parent.text("path"), model=name, mdev_types=types.of(name))


def _address(gpu: TypedAnswer) -> str:
    """NVML pads the domain to eight digits; sysfs does not."""
    text = gpu.text("address")
    try:
        return str(PciAddress.parse(text))
    except ValueError:
        return text


def _node(number: int | None) -> int | None:
    """The kernel's -1 means that the device belongs to no node."""
    return None if number is None or number < 0 else number
