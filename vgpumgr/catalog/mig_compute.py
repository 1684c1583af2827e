"""MIG: the compute instances that fit into a GPU instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from vgpumgr.catalog.tables import table

# "1 slice rev1": the only compute instance of a 1g GPU instance with two memory slices.
_REV1 = 7


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CiProfile:
    """A compute-instance profile inside a GPU instance.

    ``name`` as the driver prints it: ``1c.3g.20gb``, and the GPU instance's own name at full size.
    ``id`` as ``nvidia-smi mig -lcip`` prints it. The slices of all compute instances add up to
    the GPU instance's at most. ``verified`` False: the table of another board is assumed.
    """

    name: str
    id: int
    slices: int
    max_instances: int
    verified: bool


def compute_profiles(row: dict[str, Any], gpu_slices: int, arch: str) -> tuple[CiProfile, ...]:
    """The compute instances of one row of ``gi_profiles`` on a GPU of so many compute slices.

    Sources: nvml.h, ``-lcip`` captures of A100, mig-parted and go-nvml for A100 and A30. Hopper
    is assumed to be as A100, and RTX PRO, which has four slices, as A30.
    """
    known = table("mig_profiles")["ci_profiles"]
    rows = known["per_gi_a30" if gpu_slices == 4 else "per_gi_7_slice_gpus"]
    return tuple(
        CiProfile(
            name=_name(row, each),
            id=_id(row, each, arch),
            slices=each["slices"],
            max_instances=each["max_instances"],
            verified=arch == "ampere",
        )
        for each in rows[f"{row['gpu_slices']}g"]
    )


def _name(row: dict[str, Any], ci: dict[str, Any]) -> str:
    name = str(row["name"])
    return name if ci["slices"] == row["gpu_slices"] else f"{ci['ci']}.{name}"


def _id(row: dict[str, Any], ci: dict[str, Any], arch: str) -> int:
    """Hopper's 1g with two memory slices is the exception. Source: H100 SXM5 capture."""
    if arch == "hopper" and row["gpu_slices"] == 1 and row["mem_slices"] == 2:
        return _REV1
    return int(ci["profile_id"])
