"""One entry of ``mdev_supported_types``, and how NVIDIA's driver words it."""

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
class MdevType:
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
def nvidia_types(key: str) -> tuple[MdevType, ...]:
    """All types of a catalogue board that have a number."""
    board = catalog.board(key)
    return tuple(_nvidia(each) for each in board.types if each.id is not None) if board else ()


def _nvidia(kind: catalog.VgpuType) -> MdevType:
    """The description is one line with one newline (captured on A2 and T4 hosts, behaviour §3)."""
    heads, resolution, rate = _BY_SERIES[kind.series]
    return MdevType(
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
