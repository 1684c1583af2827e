"""Whole GPUs: the function is bound to vfio-pci and given to one VM."""

from __future__ import annotations

from vgpumgr import catalog
from vgpumgr.gpu.claim import claim_of, is_ours, require_ours
from vgpumgr.model.address import PciAddress
from vgpumgr.model.domain import Hostdev, PciHostdev
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework, GpuFacts
from vgpumgr.model.observed import Differs, InState, Observed
from vgpumgr.model.placement import Offer
from vgpumgr.model.ports import Helper
from vgpumgr.model.vm import Allocation


def companions(gpu: GpuFacts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rest of a GPU's IOMMU group: (its own sibling functions, strangers).

    Siblings (HD audio, USB-C) follow the GPU to vfio-pci; a stranger in the group forbids
    passthrough, because VFIO owns whole groups.
    """
    own = gpu.address
    others = [name for name in gpu.group_devices if name != gpu.device]
    siblings = tuple(name for name in others if own and _same_slot(own, PciAddress.parse(name)))
    return siblings, tuple(name for name in others if name not in siblings)


def _same_slot(a: PciAddress, b: PciAddress) -> bool:
    return (a.domain, a.bus, a.slot) == (b.domain, b.bus, b.slot)


class PassthroughFramework:
    """The helper binds the GPU with driver_override and restores the host driver at release."""

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
                memory_mib=gpu.memory_mib or (board.memory_gib * 1024 if board else 0),
                mmio64_mib=(board.mmio64_mib or 0) if board else 0,
            ),
        )

    def realise(self, helper: Helper, allocation: Allocation) -> None:
        """Bind to vfio-pci, siblings too."""
        helper.call(
            "vfio_bind",
            {
                "address": allocation.device,
                "with": list(allocation.companions),
                "claim": claim_of(allocation),
            },
        )

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

    def describe(self, allocation: Allocation, *, display: bool) -> Hostdev:
        """``<hostdev type='pci'>`` by address; display is a vGPU's matter."""
        return PciHostdev(address=allocation.device)
