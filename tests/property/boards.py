"""Boards as supplies offer them: counted, mixed-size, MIG, shared instances."""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.model.gpu import Framework
from vgpumgr.model.supply import InstanceOffer, Offer, SlotStart

UNITS = 16
"""Two slots per MIG slice of a grid of 8."""

WHOLE = Offer(
    profile="passthrough",
    framework=Framework.PASSTHROUGH,
    type_id="",
    units=UNITS,
    max_instances=1,
    memory_mib=16384,
)


def vgpu(gib: int, series: str = "Q") -> Offer:
    return Offer(
        profile=f"X-{gib}{series}",
        framework=Framework.VFIO_VF,
        type_id=f"{gib}{series}",
        units=gib,
        max_instances=UNITS // gib,
        memory_mib=gib * 1024,
        size_class=gib,
        max_per_vm=1 if series == "B" else 16,
        series=series,
        needs_vf=True,
    )


def at_ids(gib: int, *ids: int) -> Offer:
    starts = tuple(SlotStart(at=at, slots=tuple(range(at, at + gib))) for at in ids)
    return replace(vgpu(gib), starts=starts, max_instances=len(ids), size_class=0)


def mig(profile: str, slices: int, size: int, *starts: int, share: int = 1, most: int = 7) -> Offer:
    return Offer(
        profile=profile,
        framework=Framework.VFIO_VF,
        type_id=profile,
        units=2 * size // share,
        max_instances=most,
        memory_mib=2048 * size // share,
        size_class=share,
        names=(f"X-{profile}-C",),
        series="C",
        starts=tuple(SlotStart(at=s, slots=tuple(range(2 * s, 2 * (s + size)))) for s in starts),
        needs_vf=True,
        instance=InstanceOffer(
            profile=profile.split("/")[0],
            profile_id=slices * 10 + size + 100 * ("+me" in profile),
            size=size,
            gpu_slices=slices,
            media="+me" in profile,
            per_instance=share,
        ),
    )


COUNTED = tuple(vgpu(g, s) for g in (2, 4, 8) for s in "QB")
MIXED = (at_ids(8, 0, 8), at_ids(4, 0, 5, 12), at_ids(2, 0, 3, 5, 8, 10, 14))
MIG = (
    mig("1g", 1, 1, *range(7)),
    mig("1g+me", 1, 1, *range(7), most=1),
    mig("1g.big", 1, 2, 0, 2, 4, 6, most=4),
    mig("2g", 2, 2, 0, 2, 4, most=3),
    mig("2g+me", 2, 2, 0, 2, 4, most=1),
    mig("3g", 3, 4, 0, 4, most=2),
    mig("7g", 7, 8, 0, most=1),
)
SHARED = (
    mig("3g", 3, 4, 0, 4),
    mig("3g/2", 3, 4, 0, 4, share=2),
    mig("3g/4", 3, 4, 0, 4, share=4),
    mig("1g", 1, 1, *range(7)),
)
THEMES = {"counted": COUNTED, "mixed": MIXED, "mig": MIG, "shared": SHARED, "whole": ()}
NAMES = ("X-2Q", "X-4Q", "X-4B", "1g", "2g", "3g/2", "X-2g-C", "passthrough")
