"""What GPUs that are alike share: everything of their supply but what lies on them."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.model.placement import GpuSupply, Offer
from vgpumgr.placement.demand import Kind
from vgpumgr.placement.geometry import Grid, ShapeBook, Shapes
from vgpumgr.placement.offers import matching, whole

_GRIDS = 4096


class Board:
    """One make of GPU as it is laid out: its model, its units and what it offers.

    ``number`` tells boards of one fleet apart. ``counted``: its vGPUs may lie on any free slots.
    ``placed``: all of them begin at starts.
    """

    __slots__ = (
        "_grids",
        "_matching",
        "counted",
        "makes_whole",
        "model",
        "number",
        "offers",
        "placed",
        "shapes",
        "units",
    )

    def __init__(self, number: int, supply: GpuSupply, shapes: Shapes) -> None:
        self.number = number
        self.model = supply.model
        self.units = supply.units
        self.offers = supply.offers
        self.shapes = shapes
        self.makes_whole = any(map(whole, supply.offers))
        self.counted = not any(offer.starts or offer.instance for offer in supply.offers)
        shared = [offer for offer in supply.offers if not whole(offer)]
        starts = all(offer.starts and not offer.instance for offer in shared)
        self.placed = bool(shared) and starts
        self._grids: dict[int, Grid] = {}
        self._matching: dict[Kind, tuple[Offer, ...]] = {}

    def matching(self, kind: Kind) -> tuple[Offer, ...]:
        """The offers that answer ``kind``, best first; () too where the model is another."""
        found = self._matching.get(kind)
        if found is None:
            found = matching(self.offers, kind) if kind.allows(self.model) else ()
            self._matching[kind] = found
        return found

    def shared(self, grid: Grid) -> Grid:
        """A grid equal to this one, the same object for all GPUs where that is easy to tell."""
        if grid.instances or grid.shapes is not self.shapes:
            return grid
        if len(self._grids) >= _GRIDS:
            self._grids.clear()
        known = self._grids.setdefault(grid.free, grid)
        return known if known.gpu_slices == grid.gpu_slices else grid


class BoardBook:
    """The boards of a fleet."""

    def __init__(self) -> None:
        self._shapes = ShapeBook()
        self._known: dict[tuple[str, int], list[Board]] = {}
        self._count = 0

    def __iter__(self) -> Iterator[Board]:
        for known in self._known.values():
            yield from known

    def of(self, supply: GpuSupply) -> Board:
        """The board of this GPU."""
        known = self._known.setdefault((supply.model, supply.units), [])
        for board in known:
            if board.offers is supply.offers or board.offers == supply.offers:
                return board
        known.append(Board(self._count, supply, self._shapes.of(supply)))
        self._count += 1
        return known[-1]
