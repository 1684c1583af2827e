"""The entries of ``mdev_supported_types``, as NVIDIA's and the kernel's samples have them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from vgpumgr import catalog

_PREFIX = "nvidia-"
# Heads, resolution per head and frame rate of a series, for rows that lack them (behaviour §6).
_BY_SERIES = {
    "A": (1, "1280x1024", 60),
    "B": (4, "5120x2880", 45),
    "C": (1, "4096x2400", 60),
    "Q": (4, "7680x4320", 60),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedMdevType:
    """One mdev type of a parent.

    ``size`` is what it takes of the parent's budget (MiB of framebuffer, or whatever a sample
    driver counts), ``most`` how many the parent may carry. ``description`` None = no such file.
    """

    id: str
    name: str
    size: int
    most: int
    description: str | None = None

    @property
    def number(self) -> int:
        """NVIDIA's number of the type: 232 of ``nvidia-232``."""
        return int(self.id.removeprefix(_PREFIX))


@cache
def nvidia_types(key: str) -> tuple[SupportedMdevType, ...]:
    """All types of a catalogue board that have a number."""
    board = catalog.board(key)
    return tuple(_nvidia(each) for each in board.types if each.id is not None) if board else ()


def _nvidia(kind: catalog.VgpuType) -> SupportedMdevType:
    """The description is one line with one newline (captured on A2 and T4 hosts, behaviour §3)."""
    heads, resolution, rate = _BY_SERIES[kind.series]
    return SupportedMdevType(
        id=f"{_PREFIX}{kind.id}",
        name=kind.name,
        size=kind.fb_mib,
        most=kind.max_gpu,
        description=(
            f"num_heads={kind.heads or heads}, frl_config={kind.frl_fps or rate}, "
            f"framebuffer={kind.fb_mib}M, max_resolution={kind.resolution or resolution}, "
            f"max_instance={kind.max_gpu}\n"
        ),
    )


# Linux samples/vfio-mdev: mbochs.c (256 MB of video memory) and mtty.c (24 ports).


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleParent:
    """One of the kernel's sample drivers: a virtual parent whose types share ``budget``."""

    name: str
    budget: int
    types: tuple[SupportedMdevType, ...]


SAMPLES = {
    parent.name: parent
    for parent in (
        SampleParent(
            name="mbochs",
            budget=256,
            types=tuple(
                SupportedMdevType(
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
                SupportedMdevType(id="mtty-1", name="Single port serial", size=1, most=24),
                SupportedMdevType(id="mtty-2", name="Dual port serial", size=2, most=12),
            ),
        ),
    )
}
