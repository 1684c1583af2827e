"""VMs: as asked for, as the ledger has them, and what they hold of GPUs."""

from vgpumgr.model.vm.allocation import Allocation, AllocationState, InstancePart
from vgpumgr.model.vm.record import VmPlace, VmRecord, VmState
from vgpumgr.model.vm.spec import (
    DEFAULT_POLICY,
    NAME,
    Affinity,
    CloudInit,
    DiskMode,
    DiskSpec,
    GpuRequest,
    NicSpec,
    NumaPolicy,
    PlacementPolicy,
    VmSpec,
    seed_digest,
)

__all__ = [
    "DEFAULT_POLICY",
    "NAME",
    "Affinity",
    "Allocation",
    "AllocationState",
    "CloudInit",
    "DiskMode",
    "DiskSpec",
    "GpuRequest",
    "InstancePart",
    "NicSpec",
    "NumaPolicy",
    "PlacementPolicy",
    "VmPlace",
    "VmRecord",
    "VmSpec",
    "VmState",
    "seed_digest",
]
