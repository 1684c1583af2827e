"""Boards of which one size alone is expected: there it costs no capacity which GPU takes a VM.

GPUs that are cut into parts of one size hold as many in whatever order they come, if nothing else
is expected on them and every VM brings the same vCPUs and memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from vgpumgr.model.supply import Offer
from vgpumgr.placement.resources.demand import Demand, whole
from vgpumgr.placement.resources.gpu_state import BoardLayout
from vgpumgr.placement.tables.gpu_states import MILLI

NO_SIZE = -1.0
"""Of boards of which nothing, a whole GPU or several sizes are expected."""


class EqualSizes:
    """The expected size by board; ``demands`` are all that is expected, however rarely."""

    def __init__(self, demands: Sequence[Demand]) -> None:
        self._demands = tuple(dict.fromkeys(demands))
        self._known: dict[BoardLayout, float] = {}

    def of(self, board: BoardLayout | None) -> float:
        """What one part takes of a GPU of this board, in thousandths; ``NO_SIZE``."""
        if board is None:
            return NO_SIZE
        if board not in self._known:
            self._known[board] = self._size(board)
        return self._known[board]

    def _size(self, board: BoardLayout) -> float:
        sizes: set[Hashable] = set()
        units = 0
        for demand in self._demands:
            offers = [each for kind in demand.kinds for each in board.matching(kind)[:1]]
            if not offers:
                continue
            if demand.parts > 1 or whole(offers[0]):
                return NO_SIZE
            sizes.add((_size_of(offers[0]), _rest_of(demand)))
            units = offers[0].units
        return MILLI * units / board.units if len(sizes) == 1 and board.units else NO_SIZE


def _size_of(offer: Offer) -> Hashable:
    made = offer.instance.profile_id if offer.instance else None
    return offer.units, offer.size_class, offer.starts, made


def _rest_of(demand: Demand) -> Hashable:
    """What a VM takes of the host besides GPUs."""
    pages = demand.hugepage_kib, demand.pages
    return demand.vcpus, demand.memory_mib, pages, demand.pin_cpus, demand.numa
