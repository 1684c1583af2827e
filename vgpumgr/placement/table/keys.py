"""What tells states of GPUs apart: only what can make a difference to what fits."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

from vgpumgr.model.placement import Offer
from vgpumgr.placement.board import Board
from vgpumgr.placement.geometry import Instance
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.offers import whole

_BOARDS = 256
"""Boards of which what their offers say is remembered."""


def state_key(gpu: GpuState) -> Hashable:
    """Equal for GPUs that take the same parts in the same places, now and later."""
    supply, grid, board = gpu.supply, gpu.grid, gpu.board
    return (
        board.number,
        board.units,
        supply.same_size,
        bool(supply.passthrough_blocked),
        grid.gpu_slices,
        _free(gpu),
        _instances(grid.instances),
        gpu.used > 0,
        gpu.whole,
        frozenset(gpu.classes) if supply.same_size else (),
        tuple(gpu.count(offer.profile) for offer in limited(board)),
        tuple(gpu.driver_left(offer) for offer in board.offers) if supply.available else (),
        min(len(gpu.vfs), _most_more(gpu)),
    )


def _free(gpu: GpuState) -> Hashable:
    """Of free slots only those matter at which something may begin, and how many there are."""
    free, board = gpu.grid.free, gpu.board
    if board.counted:
        return free.bit_count()
    return (free.bit_count(), board.shapes.opened(free)) if board.placed else free


def _most_more(gpu: GpuState) -> int:
    """No more VFs than that can come to be taken, whatever is placed."""
    smallest = _smallest(gpu.board)
    return gpu.free_units // smallest if smallest else 0


@lru_cache(maxsize=_BOARDS)
def _smallest(board: Board) -> int:
    """Units of the smallest that takes a VF; 0 where nothing does."""
    return min((max(1, o.units) for o in board.offers if o.needs_vf), default=0)


@lru_cache(maxsize=_BOARDS)
def limited(board: Board) -> tuple[Offer, ...]:
    """Offers of which a GPU holds fewer than would have a place on it."""
    return tuple(each for each in board.offers if not each.instance and _limits(board, each))


def _limits(board: Board, offer: Offer) -> bool:
    places = len(offer.starts) if offer.starts else board.units // max(1, offer.units)
    return not whole(offer) and offer.max_instances < places


def _instances(instances: tuple[Instance, ...]) -> Hashable:
    """The order in which the driver fills them matters while one of them has room."""
    seen = [
        (
            each.supply.profile_id, each.supply.start, each.slots, each.free, each.vgpus,
            each.size_class, bool(each.supply.blocked), each.supply.media, each.ours,
        )
        for each in instances
    ]  # fmt: skip
    return tuple(seen if any(each.free for each in instances) else sorted(seen))
