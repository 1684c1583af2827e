"""Whole GPUs: the physical function and its siblings, given to one VM."""

from __future__ import annotations

from vgpumgr import catalog
from vgpumgr.gpu.device_claims import BoundFunction
from vgpumgr.model.domain import Hostdev, PciHostdev
from vgpumgr.model.formats import PciAddress
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework, GpuFacts
from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import Allocation


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
