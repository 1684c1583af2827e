"""The frameworks that give a PCI function as it is: a whole GPU, or one of its plain VFs."""

from __future__ import annotations

from vgpumgr import catalog
from vgpumgr.gpu import uncatalogued
from vgpumgr.gpu.gpu_framework import claim_of, is_ours, require_ours
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import Hostdev, PciHostdev
from vgpumgr.model.formats import PciAddress
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework, GpuFacts
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Helper
from vgpumgr.model.supply import Offer


class BoundFunction:
    """The helper binds with driver_override, resets, and restores the host driver at release."""

    def realise(self, helper: Helper, allocation: Allocation) -> None:
        """Bind to vfio-pci, companions too."""
        helper.call("vfio_bind", _arguments(allocation))

    def adopt(self, helper: Helper, allocation: Allocation) -> None:
        """Claim the functions that are on vfio-pci."""
        helper.call("vfio_adopt", _arguments(allocation))

    def look(self, helper: Helper, allocation: Allocation) -> Observed:
        """Is it on vfio-pci under our claim?"""
        seen = helper.call("vfio_look", {"address": allocation.device})
        if not seen["exists"]:
            return Differs(f"{allocation.device} is not on the bus")
        if seen["driver"] != "vfio-pci":
            return Differs(f"{allocation.device} is on {seen['driver'] or 'no driver'}")
        require_ours(seen, allocation)
        return InState()

    def holds(self, helper: Helper, allocation: Allocation) -> bool:
        """The claim goes last, when the original driver is back."""
        return is_ours(helper.call("vfio_look", {"address": allocation.device}), allocation)

    def release(self, helper: Helper, allocation: Allocation) -> None:
        """Give it back to the driver it came from."""
        helper.call("vfio_release", {"address": allocation.device, "claim": claim_of(allocation)})


def _arguments(allocation: Allocation) -> dict[str, object]:
    return {
        "address": allocation.device,
        "with": list(allocation.companions),
        "claim": claim_of(allocation),
    }


def companions(gpu: GpuFacts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rest of a GPU's IOMMU group: (its own sibling functions, strangers).

    Siblings (HD audio, USB-C) follow the GPU to vfio-pci; a stranger in the group forbids
    passthrough, because VFIO owns whole groups.
    """
    own, vfs = gpu.address, {vf.address for vf in gpu.vfs}
    others = [name for name in gpu.group_devices if name != gpu.device]
    siblings = tuple(
        name
        for name in others
        if own and name not in vfs and _same_slot(own, PciAddress.parse(name))
    )
    return siblings, tuple(name for name in others if name not in siblings)


def _same_slot(a: PciAddress, b: PciAddress) -> bool:
    return (a.domain, a.bus, a.slot) == (b.domain, b.bus, b.slot)


class PassthroughFramework(BoundFunction):
    """The GPU leaves the host's driver for as long as the VM has it."""

    def offers(self, gpu: GpuFacts) -> tuple[Offer, ...]:
        """The whole GPU, for every PCI GPU (what forbids it is a matter of the host's state)."""
        if gpu.address is None:
            return ()
        board = catalog.board(gpu.model)
        return (
            Offer(
                profile=PASSTHROUGH_PROFILE,
                framework=Framework.PASSTHROUGH,
                type_id="",
                units=1,
                max_instances=1,
                memory_mib=gpu.memory_mib or _nominal_mib(gpu),
                mmio64_mib=(board.mmio64_mib or 0) if board else 0,
            ),
        )

    def describe(self, allocation: Allocation, *, display: bool) -> tuple[Hostdev, ...]:
        """Its functions on one guest slot, the GPU first; display is a vGPU's matter."""
        gpu = PciHostdev(address=allocation.device)
        return (
            gpu,
            *(PciHostdev(address=each, follows=gpu.address) for each in allocation.companions),
        )


def _nominal_mib(gpu: GpuFacts) -> int:
    board = catalog.board(gpu.model) or catalog.sriov_board(gpu.model)
    return (board.memory_gib or 0) * 1024 if board else 0


class PciVfFramework(BoundFunction):
    """All VFs of a GPU are equal: with 8 on, each is ``MI300X-1of8``.

    A GPU outside the catalogue goes by its PCI id: ``8086:10c9-1of4``.
    """

    def offers(self, gpu: GpuFacts) -> tuple[Offer, ...]:
        """One offer where VFs are on, each VF one unit; what it has of memory may be unknown."""
        board, count = catalog.sriov_board(gpu.model), len(gpu.vfs)
        if not count or (board is None and not uncatalogued.plain_profile(gpu)):
            return ()
        return (
            Offer(
                profile=catalog.vf_profile(gpu.model, count),
                framework=Framework.PCI_VF,
                type_id="",
                units=1,
                max_instances=count,
                memory_mib=(board and catalog.vf_memory_mib(board, count)) or 0,
                verified=board is not None and board.verified,
                needs_vf=True,
            ),
        )

    def describe(self, allocation: Allocation, *, display: bool) -> tuple[Hostdev, ...]:
        """``<hostdev type='pci'>`` by the VF's address; display is a vGPU's matter."""
        return (PciHostdev(address=allocation.device),)
