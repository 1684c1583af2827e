"""GPUs as a host shows them, and what each of them can make."""

from vgpumgr.model.gpu.facts import GpuFacts, GpuHealth
from vgpumgr.model.gpu.mig import ComputeInstance, GpuInstance, MigFacts, MigProfile, MigType
from vgpumgr.model.gpu.record import GpuRecord, GpuState
from vgpumgr.model.gpu.vgpu import (
    PASSTHROUGH_PROFILE,
    Framework,
    Mdev,
    MdevType,
    VendorVgpu,
    VfFacts,
    profile_name,
)

__all__ = [
    "PASSTHROUGH_PROFILE",
    "ComputeInstance",
    "Framework",
    "GpuFacts",
    "GpuHealth",
    "GpuInstance",
    "GpuRecord",
    "GpuState",
    "Mdev",
    "MdevType",
    "MigFacts",
    "MigProfile",
    "MigType",
    "VendorVgpu",
    "VfFacts",
    "profile_name",
]
