"""A GPU's slots as SVG paths: one path for each kind of use, so that large maps stay light."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

CELL, GAP, HEIGHT = 10, 1, 16
"""Width of a slot, the gap between two uses, and the height, in pixels."""
_KINDS = {".": "free", "=": "instance", "#": "foreign"}
_BOXES = frozenset({"used", "foreign"})
WIDEST = 320
"""GPUs with very many slots are drawn with narrower ones."""


@dataclass(frozen=True, slots=True)
class SlotPath:
    """The slots of one ``kind`` (``used``, ``foreign``, ``instance``, ``free``) as path data. Those
    that hold nothing are one stroke with a gap after each, ``dashes``; a use is a box.
    """

    kind: str
    data: str
    dashes: str = ""


@lru_cache(maxsize=65536)
def slot_paths(cells: str) -> tuple[SlotPath, ...]:
    """The paths of a GPU whose slots are so, a sign each, as the map's answer has them."""
    found: dict[str, list[str]] = {}
    width, at = cell_width(len(cells)), 0.0
    gap = min(GAP, width / 4)
    for sign, run in groupby(cells):
        kind, long = _KINDS.get(sign, "used"), len(list(run)) * width
        box = f"M{at:g} 0h{long - gap:g}v{HEIGHT}h{gap - long:g}z"
        found.setdefault(kind, []).append(
            box if kind in _BOXES else f"M{at:g} {HEIGHT / 2:g}h{long - gap:g}"
        )
        at = round(at + long, 3)
    dashes = f"{width - gap:g} {gap:g}"
    return tuple(
        SlotPath(kind, "".join(paths), "" if kind in _BOXES else dashes)
        for kind, paths in found.items()
    )


def cell_width(slots: int) -> float:
    """How wide a slot is drawn."""
    return min(CELL, round(WIDEST / max(slots, 1), 2))


def drawn_width(cells: str) -> float:
    """How wide the GPU is drawn."""
    return round(len(cells) * cell_width(len(cells)), 2)
