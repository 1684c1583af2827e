"""The vGPU manager's own limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import final

from vgpumgr.catalog.tables import table


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most vGPUs on a GPU, time-sliced ones on a GPU, in a GPU instance, and in a VM."""

    per_gpu: int
    per_gpu_time_sliced: int
    per_gpu_instance: int
    per_vm: int


@cache
def limits() -> Limits:
    """Source: constants in ctrla081.h and kernel_vgpu_mgr.c of the open kernel modules."""
    row = table("vgpu_types")["limits"]
    return Limits(
        per_gpu=row["max_vgpus_per_gpu"],
        per_gpu_time_sliced=row["max_vgpus_per_gpu_time_sliced"],
        per_gpu_instance=row["max_vgpus_per_gpu_instance"],
        per_vm=row["max_vgpus_per_vm"],
    )
