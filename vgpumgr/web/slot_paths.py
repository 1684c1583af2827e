"""A GPU's slots as SVG paths: one path for each kind of use, so that large maps stay light."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby

CELL, GAP, HEIGHT = 10, 1, 16
"""Width of a slot, the gap between two uses, and the height, in pixels."""
_KINDS = {".": "free", "=": "instance", "#": "foreign"}
WIDEST = 320
"""GPUs with very many slots are drawn with narrower ones."""


@lru_cache(maxsize=65536)
def slot_paths(cells: str) -> tuple[tuple[str, str], ...]:
    """The paths of a GPU whose slots are so (a sign each, as the map's answer has them): (kind,
    path data) each, kinds being ``used``, ``foreign``, ``instance`` and ``free``.
    """
    found: dict[str, list[str]] = {}
    width, at = cell_width(len(cells)), 0.0
    for sign, run in groupby(cells):
        kind, count = _KINDS.get(sign, "used"), len(list(run))
        pieces = [count] if kind in {"used", "foreign"} else [1] * count
        for slots in pieces:
            long = slots * width - min(GAP, width / 4)
            found.setdefault(kind, []).append(f"M{at:g} 0h{long:g}v{HEIGHT}h-{long:g}z")
            at += slots * width
    return tuple((kind, "".join(paths)) for kind, paths in found.items())


def cell_width(slots: int) -> float:
    """How wide a slot is drawn."""
    return min(CELL, round(WIDEST / max(slots, 1), 2))


def drawn_width(cells: str) -> float:
    """How wide the GPU is drawn."""
    return round(len(cells) * cell_width(len(cells)), 2)
