"""Mediated devices: NVIDIA vGPU on kernels before 6.8, Intel GVT-g, the kernel's samples."""

from __future__ import annotations

from vgpumgr import catalog
from vgpumgr.gpu.claim import claim_of, is_ours, require_ours
from vgpumgr.model.domain import Hostdev, MdevHostdev
from vgpumgr.model.gpu import Framework, GpuFacts, MdevType
from vgpumgr.model.observed import Differs, InState, Observed
from vgpumgr.model.placement import Offer
from vgpumgr.model.ports import Helper
from vgpumgr.model.vm import Allocation

# ogkm 595.45.04: at most 16 vGPUs in one VM.
MAX_VGPUS_PER_VM = 16


class MdevFramework:
    """A vGPU is an mdev: the helper writes its UUID to the type's ``create`` file."""

    def offers(self, gpu: GpuFacts) -> tuple[Offer, ...]:
        """One offer per type that the parent lists and whose size is known."""
        return tuple(
            self._offer(gpu, mdev_type)
            for mdev_type in gpu.mdev_types
            if mdev_type.type_id in gpu.type_units
        )

    def realise(self, helper: Helper, allocation: Allocation) -> None:
        """Create the mdev with the recorded UUID."""
        helper.call(
            "mdev_create",
            {
                "parent": allocation.parent,
                "type": allocation.type_id,
                "uuid": allocation.device,
                "claim": claim_of(allocation),
            },
        )

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

    def describe(self, allocation: Allocation, *, display: bool) -> Hostdev:
        """``<hostdev type='mdev'>`` by UUID."""
        return MdevHostdev(uuid=allocation.device, display=display)

    @staticmethod
    def _offer(gpu: GpuFacts, mdev_type: MdevType) -> Offer:
        units = gpu.type_units[mdev_type.type_id]
        board = catalog.board(gpu.model)
        known = board and next((t for t in board.types if t.profile == mdev_type.profile), None)
        if known is None:
            return Offer(
                profile=mdev_type.profile,
                framework=Framework.MDEV,
                type_id=mdev_type.type_id,
                units=units,
                max_instances=10_000,
                memory_mib=0,
                max_per_vm=MAX_VGPUS_PER_VM,
            )
        return Offer(
            profile=known.profile,
            framework=Framework.MDEV,
            type_id=mdev_type.type_id,
            units=units,
            max_instances=known.max_gpu,
            memory_mib=known.fb_mib,
            size_class=known.fb_mib,
            max_per_vm=MAX_VGPUS_PER_VM if known.multi_vgpu else 1,
            verified=known.verified,
        )
