"""Open starts: the value of a GPU in mixed-size mode by the placement ids left free.

A start counts as much as the vGPU that begins there takes, so a place that breaks a large one costs
more than one that breaks small ones. How often the mix asks for each does not count, on purpose:
large vGPUs are rare in a mix and most of what is refused, and scores that go by shares give their
places away.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.placement.resources.demand import whole
from vgpumgr.placement.resources.gpu_state import BoardLayout, GpuOccupancy
from vgpumgr.placement.scores.fragmentation import Weighted
from vgpumgr.placement.tables.gpu_states import MILLI


class OpenStarts:
    """The value of GPUs in mixed-size mode by the starts left free, for the kinds that ``mix`` asks
    for; shares of the mix do not count.
    """

    def __init__(self, mix: Sequence[Weighted]) -> None:
        self._kinds = {kind for each in mix if each.weight for kind in each.demand.kinds}
        self._known: dict[BoardLayout, dict[int, int]] = {}

    def lost(self, gpu: GpuOccupancy) -> float | None:
        """In thousandths of a GPU, 0 for an empty one; None where starts are not what counts."""
        board = gpu.board
        units = self._units(board) if mixes(gpu) else {}
        if not units:
            return None
        every = sum(members.bit_count() * each for members, each in units.items())
        opened = board.shapes.opened(gpu.grid.free)
        left = sum((opened & members).bit_count() * each for members, each in units.items())
        return MILLI * (every - left) / every

    def _units(self, board: BoardLayout) -> dict[int, int]:
        """What a vGPU takes, by the starts (bits) of all that have the same."""
        found = self._known.get(board)
        if found is None:
            asked = (board.matching(kind)[:1] for kind in self._kinds)
            shared = [offer for first in asked for offer in first if not whole(offer)]
            found = {board.shapes.members(offer): offer.units for offer in shared}
            self._known[board] = found
        return found


def mixes(gpu: GpuOccupancy) -> bool:
    """Whether sizes may mix on the GPU, each at starts of its own."""
    return gpu.board.placed and not gpu.supply.same_size
