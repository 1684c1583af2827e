"""Less fragmentation: one GPU more emptied at a time, until the gauge is low enough. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpumgr.model.defrag import Empty, Move, Moves, NoMoves, Resident
from vgpumgr.model.placement import Fleet
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.defrag import one_by_one, plan_moves


def share(
    bare: Fleet, residents: Sequence[Resident], mix: Mix | None, moves: Iterable[Move] = ()
) -> float:
    """The share of free GPU memory that is of no use to the mix, after these moves."""
    at = {each.placed.request.name: each.placed for each in residents}
    for move in moves:
        at[move.vm] = move.target
    placer = Placer(bare, PlacementPolicy.LEAST_FRAGMENTATION, mix=mix)
    for placed in one_by_one(bare, at.values()):
        placer.commit(placed)
    return placer.fragmentation().share


def lower(
    bare: Fleet,
    residents: Sequence[Resident],
    mix: Mix | None,
    enough: float,
    *,
    most: int | None = None,
) -> Moves | NoMoves:
    """The moves, at most ``most``, that empty as few GPUs as bring the share down to ``enough``.

    Where none do, those that bring it down furthest; NoMoves where nothing lowers it.
    """
    best, least = Moves(), share(bare, residents, mix)
    empty = _empty_now(bare, residents)
    while least > enough:
        empty += 1
        found = plan_moves(bare, residents, Empty(gpus=empty), most=most)
        if isinstance(found, NoMoves):
            return best if best.moves else found
        after = share(bare, residents, mix, found.moves)
        if after < least:
            best, least = found, after
    return best


def _empty_now(bare: Fleet, residents: Sequence[Resident]) -> int:
    taken = {part.gpu for each in residents for part in each.placed.assignments}
    return sum(
        not gpu.usages and gpu.id not in taken and not gpu.blocked
        for host in bare.hosts
        for gpu in host.gpus
    )
