"""The quick way: one clearing after the other, those that the fewest leave first."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.model.defrag import Move
from vgpumgr.placement.defrag.clearing import Clearing, Site
from vgpumgr.placement.defrag.ordering import move
from vgpumgr.placement.defrag.settling import Settling


def greedy(settling: Settling, sites: Sequence[Site], gain: int) -> tuple[int, tuple[Move, ...]]:
    """What is won, at most ``gain``, and the moves for it, each feasible when it is due.

    A clearing after which somebody finds no place is left out. Nobody goes where something was
    cleared, or is going to be; nothing is cleared where somebody went.
    """
    floor, mark = settling.floor, settling.floor.mark()
    queue = _queue(settling, sites, gain)
    likely, ahead = [], 0
    for each in queue:
        if ahead < gain:
            likely.append(each)
            ahead += each.gain
    for each in likely:
        settling.seats.closed[list(each.gpus)] = True
    run = _Run(settling)
    for each in queue:
        if run.won >= gain:
            break
        run.carry_out(each)
    floor.back_to(mark)
    settling.seats.closed[:] = False
    return min(run.won, gain), tuple(run.moves.values())


def _queue(settling: Settling, sites: Sequence[Site], gain: int) -> list[Clearing]:
    """One clearing per site: the one that wins most per VM that leaves, and no more than needed."""
    mib = settling.floor.mib

    def price(each: Clearing) -> tuple[float, float]:
        won = min(each.gain, gain)
        weight = sum(mib[number] for number in each.leaving)
        return len(each.leaving) / won, weight / won

    return sorted((min(site, key=price) for site in sites), key=price)


class _Run:
    """The clearings carried out so far."""

    def __init__(self, settling: Settling) -> None:
        self.won = 0
        self.moves: dict[int, Move] = {}
        self._settling = settling
        self._taken: set[int] = set()

    def carry_out(self, each: Clearing) -> None:
        """As a whole, or not at all."""
        settling, floor = self._settling, self._settling.floor
        closed = settling.seats.closed
        if self._taken.intersection(each.gpus):
            closed[list(each.gpus)] = False
            return
        mark = floor.mark()
        leaving = {n: floor.lift(n) for n in each.leaving if n not in self.moves}
        order = sorted(leaving, key=floor.largest_first)
        if not (settling.hold(each) and all(map(settling.seat, order))):
            floor.back_to(mark)
            closed[list(each.gpus)] = False
            return
        self.won += each.gain
        for number in order:
            at = floor.at[number]
            assert at is not None
            self._taken.update(floor.gpus_of(at))
            self.moves[number] = move(floor, number, leaving[number], at)
