"""From a fleet, its VMs and a goal to moves, or to what is in the way."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.model.defrag import Empty, Goal, Move, Moves, NoMoves, Resident
from vgpumgr.model.placement import Fleet
from vgpumgr.placement.defrag.choosing import fewest
from vgpumgr.placement.defrag.clearing import Site, sites
from vgpumgr.placement.defrag.floor import Floor
from vgpumgr.placement.defrag.greedy import greedy
from vgpumgr.placement.defrag.obstacles import obstacles
from vgpumgr.placement.defrag.ordering import waiting_last
from vgpumgr.placement.defrag.searching import Search
from vgpumgr.placement.defrag.settling import Settling

EFFORT = 20_000
"""Seats looked at in search of fewer moves."""

_BEYOND = 8
"""How many more moves than the least are tried where the quick way fails."""

_LARGEST = 1 << 20
"""Sites × gain × moves: beyond that it takes too long to weigh choices, and the quick way is it."""


def plan_moves(
    fleet: Fleet,
    residents: Sequence[Resident],
    goal: Goal,
    *,
    most: int | None = None,
    effort: int = EFFORT,
) -> Moves | NoMoves:
    """The fewest moves, at most ``most``, that reach the goal; of as many, the lightest.

    ``fleet`` is the supply without the residents. Moves go to GPUs of other hosts or of the VM's
    own, as its ways lead, and are feasible one after the other by all rules of placement. A quick
    way is looked for first, then one with fewer moves as long as ``effort`` lasts, so
    ``Moves.fewest`` may be False. Deterministic.
    """
    floor = Floor(fleet, residents)
    gain = goal.gpus if isinstance(goal, Empty) else goal.count
    found = sites(floor, goal)
    settling = Settling(floor, goal)
    won, quick = greedy(settling, found, gain)
    moves = quick if won >= gain else None
    least = fewest(found, gain)
    if least is not None:
        search = Search(settling, found, gain, effort)
        moves = _better(search, found, gain, least, moves) or moves
    if moves is None:
        return NoMoves(reachable=won, obstacles=obstacles(floor, goal))
    if most is not None and len(moves) > most:
        return NoMoves(reachable=won, needs=len(moves))
    surely = len(moves) <= 1 or (len(moves) == least and _counted(floor, goal))
    return Moves(moves=waiting_last(moves), fewest=surely)


def _better(
    search: Search, sites: Sequence[Site], gain: int, least: int, moves: tuple[Move, ...] | None
) -> tuple[Move, ...] | None:
    most = least + _BEYOND if moves is None else len(moves) - 1
    if len(sites) * gain * most > _LARGEST:
        return None
    return search.run(least, most)


def _counted(floor: Floor, goal: Goal) -> bool:
    """Whether the least number of VMs that leave is surely the least number of moves."""
    return isinstance(goal, Empty) and all(
        len(floor.gpus_of(each.placed)) == 1 for each in floor.residents
    )
