"""The shipped JSON, one file per YAML source, read once; and the limits of the vGPU manager."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

_DATA = Path(__file__).parent / "data"


@cache
def table(name: str) -> dict[str, Any]:
    """The parsed ``data/<name>.json``."""
    return dict(json.loads((_DATA / f"{name}.json").read_bytes()))


@cache
def sources(name: str, keys: str) -> str:
    """``"ogkm+cfg17"`` spelt out from the table's own list of sources."""
    known = table(name)["sources"]
    return "; ".join(str(known.get(key, key)) for key in keys.split("+"))


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
