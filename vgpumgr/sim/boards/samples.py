"""The kernel's sample mdev drivers: virtual parents that need no hardware.

Linux samples/vfio-mdev: mbochs.c (256 MB of video memory) and mtty.c (24 ports).
"""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.sim.boards.mdev_type import MdevType


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleParent:
    """One of the kernel's sample drivers: a virtual parent whose types share ``budget``."""

    name: str
    budget: int
    types: tuple[MdevType, ...]


SAMPLES = {
    parent.name: parent
    for parent in (
        SampleParent(
            name="mbochs",
            budget=256,
            types=tuple(
                MdevType(
                    id=f"mbochs-{name}",
                    name=f"mbochs-{name}",
                    size=size,
                    most=256 // size,
                    description=f"virtual display, {size} MB video memory\n",
                )
                for name, size in (("small", 4), ("medium", 16), ("large", 64))
            ),
        ),
        SampleParent(
            name="mtty",
            budget=24,
            types=(
                MdevType(id="mtty-1", name="Single port serial", size=1, most=24),
                MdevType(id="mtty-2", name="Dual port serial", size=2, most=12),
            ),
        ),
    )
}
