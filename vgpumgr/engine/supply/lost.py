"""Parts of GPUs that we hold and a host has lost: at a reboot VFs, types and mdevs go."""

from __future__ import annotations

from vgpumgr import catalog
from vgpumgr.engine.supply.held import HostContext
from vgpumgr.model.gpu import Framework, GpuFacts
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRecord
from vgpumgr.model.vm import Allocation, AllocationState


def shown(gpu: GpuFacts, host: HostContext) -> frozenset[str] | None:
    """The mdevs of the host and the GPU's VFs in use, by device; None where one was not read."""
    whole = {"devices", "mdevs", f"devices {gpu.device} sriov"}
    parts = [unknown.part for unknown in host.facts.unknown]
    if any(part in whole or part.startswith("mdevs ") for part in parts):
        return None
    used = (vf.address for vf in gpu.vfs if vf.vendor is None or vf.vendor.type_id != 0)
    return frozenset((*(mdev.uuid for mdev in host.facts.mdevs), *used))


def needs(
    gpu: GpuFacts,
    allocation: Allocation,
    there: frozenset[str] | None,
    layout: LayoutRecord | None = None,
) -> GpuLayout | None:
    """How the GPU must be partitioned for a lost part to come back; None where it is not lost.

    ``there`` is what is ``shown``: what could not be read is never taken for gone. What is
    reserved is about to be made, and a whole GPU is not lost while it is on the bus. How many VFs
    a GPU outside the catalogue had is in the ``layout`` that was applied last.
    """
    whole = allocation.framework == Framework.PASSTHROUGH
    if whole or there is None or allocation.device in there:
        return None
    if allocation.state is not AllocationState.ACTIVE:
        return None
    if allocation.vf is None:
        return GpuLayout()
    plain = catalog.parse_vf_profile(allocation.profile)
    if plain is not None:
        return GpuLayout(vfs=plain[1])
    return GpuLayout(
        mig=None if gpu.mig is None else allocation.instance is not None,
        vfs=_vfs(gpu, layout),
        mixed_size=_mixed_size(gpu, allocation),
        instances=_of_layout(allocation),
    )


def _vfs(gpu: GpuFacts, layout: LayoutRecord | None) -> int:
    declared = layout.goal.vfs if layout and catalog.board(gpu.model) is None else None
    return declared or VFS_MAX


def _of_layout(allocation: Allocation) -> tuple[InstanceGoal, ...] | None:
    """The GPU instance that is not made for the VM must be there before it."""
    part = allocation.instance
    if part is None or part.make:
        return None
    return (InstanceGoal(profile=part.profile, start=part.start),)


def _mixed_size(gpu: GpuFacts, allocation: Allocation) -> bool | None:
    board = catalog.board(gpu.model)
    if board is None or not board.mixed_size or allocation.instance is not None:
        return None
    return allocation.placement_id is not None
