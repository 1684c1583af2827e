"""The frameworks that make a vGPU: vendor-specific VFIO, and mediated devices.

Vendor-specific VFIO is NVIDIA's (kernel >= 6.8): a type is written to a VF. Mediated devices are
NVIDIA's vGPUs on older kernels, Intel GVT-g and the kernel's samples: their parent is the physical
function up to Turing, a virtual function from Ampere on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpumgr import catalog
from vgpumgr.catalog import Board
from vgpumgr.gpu import catalogued_vgpus, uncatalogued
from vgpumgr.gpu.gpu_framework import claim_of, is_ours, require_ours, vgpu_arguments
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import Hostdev, MdevHostdev, PciHostdev
from vgpumgr.model.gpu import Framework, GpuFacts, MdevType
from vgpumgr.model.operation import Differs, InState, Observed, Unknown
from vgpumgr.model.ports import Helper
from vgpumgr.model.supply import Offer

# A parent outside the catalogue is limited by its learned budget alone.
UNLIMITED = 10_000


class VfioVfFramework:
    """A vGPU is a VF that carries a type; the guest gets the VF as a PCI device."""

    def offers(self, gpu: GpuFacts) -> tuple[Offer, ...]:
        """The catalogue's types, less those that the driver surely does not know.

        A GPU outside the catalogue offers what it listed while it was empty, and in MIG mode what
        its driver tells of.
        """
        board = catalog.board(gpu.model)
        if all(vf.vendor is None for vf in gpu.vfs):
            return ()
        if board is None:
            ids = {each.profile: each.type_id for each in uncatalogued.mig_types(gpu)}
            return (*_unlisted(gpu), *uncatalogued.mig_offers(gpu, Framework.VFIO_VF, ids))
        return tuple(catalogued_vgpus.offers(gpu, board, Framework.VFIO_VF, _ids(gpu, board)))

    def realise(self, helper: Helper, allocation: Allocation) -> None:
        """Write the type to the VF, and make the GPU instance behind it if need be."""
        helper.call("vgpu_create", _vf_arguments(allocation))

    def adopt(self, helper: Helper, allocation: Allocation) -> None:
        """Claim the vGPU that the VF carries."""
        helper.call("vgpu_adopt", _vf_arguments(allocation))

    def look(self, helper: Helper, allocation: Allocation) -> Observed:
        """Does the VF carry the type under our claim, where it was put?"""
        seen = helper.call("vgpu_look", {"vf": allocation.device})
        if not seen["exists"]:
            return Differs(f"VF {allocation.device} is not on the bus")
        if not seen["type"]:
            return Differs(f"VF {allocation.device} carries no vGPU")
        require_ours(seen, allocation)
        if str(seen["type"]) != allocation.type_id:
            return Differs(f"VF {allocation.device} carries type {seen['type']}")
        return _place(seen, allocation)

    def holds(self, helper: Helper, allocation: Allocation) -> bool:
        """A host that rebooted keeps the claim of a VF that is gone."""
        return is_ours(helper.call("vgpu_look", {"vf": allocation.device}), allocation)

    def release(self, helper: Helper, allocation: Allocation) -> None:
        """Write 0 to the VF and drop the claim."""
        helper.call("vgpu_release", {"vf": allocation.device, "claim": claim_of(allocation)})

    def describe(self, allocation: Allocation, *, display: bool) -> tuple[Hostdev, ...]:
        """``<hostdev type='pci'>`` by the VF's address; the host's libvirt may know display."""
        return (PciHostdev(address=allocation.device, display=display),)


def _vf_arguments(allocation: Allocation) -> dict[str, object]:
    return {
        "vf": allocation.device,
        "type": int(allocation.type_id),
        "claim": claim_of(allocation),
        **vgpu_arguments(allocation),
    }


def _unlisted(gpu: GpuFacts) -> Iterator[Offer]:
    """One size per GPU unless its driver says that sizes mix, as NVIDIA's does (behaviour §6.3)."""
    if gpu.mig is not None and gpu.mig.enabled:
        return
    most = max(gpu.type_units.values(), default=0)
    for each in uncatalogued.vf_types(gpu):
        memory_mib = each.gib * uncatalogued.MIB_PER_GIB
        yield Offer(
            profile=each.profile,
            framework=Framework.VFIO_VF,
            type_id=each.type_id,
            units=each.gib,
            max_instances=most // each.gib,
            memory_mib=memory_mib,
            size_class=0 if gpu.mixed_size else memory_mib,
            max_per_vm=catalog.limits().per_vm,
            verified=False,
            series=each.series,
            needs_vf=True,
        )


def _ids(gpu: GpuFacts, board: Board) -> dict[str, str]:
    """Type ids by profile. An empty GPU's own list is complete; otherwise the catalogue's holds."""
    known = {each.profile: each.id for each in board.types if each.id is not None}
    told = _told(gpu)
    return {name: str(each) for name, each in known.items() if told is None or each in told}


def _told(gpu: GpuFacts) -> set[int] | None:
    """What the driver would make on an empty GPU; None where it is not empty or did not say.

    With MIG on the list has only the types of GPU instances that are there.
    """
    if gpu.mig is not None and gpu.mig.enabled:
        return None
    found: set[int] = set()
    for vf in gpu.vfs:
        if vf.vendor is None or vf.vendor.type_id != 0 or vf.vendor.creatable is None:
            return None
        found |= set(vf.vendor.creatable)
    return found


def _place(seen: Mapping[str, object], allocation: Allocation) -> Observed:
    """The GPU instance and the placement id, where they were chosen."""
    part, instance = allocation.instance, seen["instance"]
    if part is not None:
        if not isinstance(instance, Mapping):
            return Unknown(f"the GPU instance of {allocation.device} could not be read")
        if (instance["start"], instance["size"]) != (part.start, part.size):
            return Differs(f"VF {allocation.device} is in the GPU instance at {instance['start']}")
    at = seen["placement_id"]
    if allocation.placement_id is None or at == allocation.placement_id:
        return InState()
    if at is None:
        return Unknown(f"the placement id of {allocation.device} could not be read")
    return Differs(f"VF {allocation.device} is at placement {at}")


class MdevFramework:
    """A vGPU is an mdev: the helper writes its UUID to the type's ``create`` file."""

    def offers(self, gpu: GpuFacts) -> tuple[Offer, ...]:
        """One offer per type that a parent lists and whose size is known."""
        board = catalog.board(gpu.model)
        ids = {each.profile: each.type_id for each in types(gpu)}
        if board is None:
            return (*_learned(gpu), *uncatalogued.mig_offers(gpu, Framework.MDEV, ids))
        return tuple(catalogued_vgpus.offers(gpu, board, Framework.MDEV, ids))

    def realise(self, helper: Helper, allocation: Allocation) -> None:
        """Create the mdev with the recorded UUID, and the GPU instance behind it if need be."""
        helper.call("mdev_create", _mdev_arguments(allocation))

    def adopt(self, helper: Helper, allocation: Allocation) -> None:
        """Claim the mdev that is there."""
        helper.call("mdev_adopt", _mdev_arguments(allocation))

    def look(self, helper: Helper, allocation: Allocation) -> Observed:
        """Is the mdev there with our claim, parent and type?"""
        seen = helper.call("mdev_look", {"uuid": allocation.device})
        if not seen["exists"]:
            return Differs(f"mdev {allocation.device} does not exist")
        require_ours(seen, allocation)
        if (seen["parent"], seen["type"]) != (allocation.parent, allocation.type_id):
            return Differs(f"mdev {allocation.device} is {seen['type']} on {seen['parent']}")
        return InState()

    def holds(self, helper: Helper, allocation: Allocation) -> bool:
        """A host that rebooted keeps the claim of an mdev that is gone."""
        return is_ours(helper.call("mdev_look", {"uuid": allocation.device}), allocation)

    def release(self, helper: Helper, allocation: Allocation) -> None:
        """Remove the mdev and its claim."""
        helper.call("mdev_remove", {"uuid": allocation.device, "claim": claim_of(allocation)})

    def describe(self, allocation: Allocation, *, display: bool) -> tuple[Hostdev, ...]:
        """``<hostdev type='mdev'>`` by UUID."""
        return (MdevHostdev(uuid=allocation.device, display=display),)


def _mdev_arguments(allocation: Allocation) -> dict[str, object]:
    return {
        "parent": allocation.parent,
        "type": allocation.type_id,
        "uuid": allocation.device,
        "claim": claim_of(allocation),
        **vgpu_arguments(allocation),
    }


def types(gpu: GpuFacts) -> tuple[MdevType, ...]:
    """The types of the physical function, else those that its VFs list."""
    on_vfs = {each.type_id: each for vf in gpu.vfs for each in vf.mdev_types}
    return gpu.mdev_types or tuple(on_vfs.values())


def _learned(gpu: GpuFacts) -> Iterator[Offer]:
    for each in gpu.mdev_types:
        if each.type_id in gpu.type_units:
            yield Offer(
                profile=each.profile,
                framework=Framework.MDEV,
                type_id=each.type_id,
                units=gpu.type_units[each.type_id],
                max_instances=UNLIMITED,
                memory_mib=0,
                max_per_vm=catalog.limits().per_vm,
            )
