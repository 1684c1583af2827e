"""Plain virtual functions (AMD MxGPU, Intel, any other): the VF itself is the part of the GPU."""

from __future__ import annotations

from vgpumgr import catalog
from vgpumgr.gpu import uncatalogued
from vgpumgr.gpu.device_claims import BoundFunction
from vgpumgr.model.domain import Hostdev, PciHostdev
from vgpumgr.model.gpu import Framework, GpuFacts
from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import Allocation


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
