"""Mediated devices: NVIDIA vGPU on kernels before 6.8, Intel GVT-g, the kernel's samples.

The parent is the physical function up to Turing, a virtual function from Ampere on.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr import catalog
from vgpumgr.gpu import catalogued_vgpus, uncatalogued
from vgpumgr.gpu.gpu_framework import claim_of, is_ours, require_ours, vgpu_arguments
from vgpumgr.model.domain import Hostdev, MdevHostdev
from vgpumgr.model.gpu import Framework, GpuFacts, MdevType
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Helper
from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import Allocation

# A parent outside the catalogue is limited by its learned budget alone.
UNLIMITED = 10_000


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
        helper.call("mdev_create", _arguments(allocation))

    def adopt(self, helper: Helper, allocation: Allocation) -> None:
        """Claim the mdev that is there."""
        helper.call("mdev_adopt", _arguments(allocation))

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


def _arguments(allocation: Allocation) -> dict[str, object]:
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
