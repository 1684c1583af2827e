"""Moves in an order in which each place is free when it is due.

None goes to a GPU that it is on, so it makes no difference there that a VM holds its place until it
is gone; on its own host it is off when its vCPUs and memory are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpumgr.model.defrag import How, Move
from vgpumgr.model.placement import Placed
from vgpumgr.placement.defrag.floor import Floor
from vgpumgr.placement.defrag.seats import Seats, same_place


def move(floor: Floor, number: int, source: Placed, target: Placed, *, hop: bool = False) -> Move:
    """A resident's move, with the way it has there."""
    resident = floor.residents[number]
    way = resident.way(target.host)
    assert way is not None, "nobody is seated where no way leads"
    mib, pause_s = resident.mib(way), resident.pause_s(way)
    return Move(
        source=source,
        target=target,
        way=way,
        mib=mib,
        pause_s=pause_s,
        hop=hop,
        user=resident.user,
    )


def waiting_last(moves: Iterable[Move]) -> tuple[Move, ...]:
    """Those that wait for a user to log off after all others."""
    return tuple(sorted(moves, key=lambda each: each.way.how is How.LOGOFF))


def in_order(floor: Floor, places: Mapping[int, Placed]) -> tuple[Move, ...] | None:
    """Moves that bring everybody there; the floor is as before. None: no order was found.

    Where all wait for each other, the lightest goes aside first (a hop).
    """
    mark, steps = floor.mark(), _Steps(floor)
    left = dict(places)
    aside: set[int] = set()
    while left:
        ready = [number for number in left if steps.go(number, left[number])]
        for number in ready:
            del left[number]
        if not ready and not steps.step_aside(left, aside):
            break
    floor.back_to(mark)
    return None if left else tuple(steps.done)


class _Steps:
    """What was done so far."""

    def __init__(self, floor: Floor) -> None:
        self.done: list[Move] = []
        self._floor = floor
        self._seats = Seats(floor)

    def go(self, number: int, wanted: Placed) -> bool:
        """To its last place, if that is free now, and on no GPU that it is on.

        Its ways lead from where it was at first: it goes back to that host from there alone.
        """
        at, home = self._floor.at[number], self._floor.residents[number].placed.host
        assert at is not None
        if wanted.host in {at.host, home} and at.host != home:
            return False
        apart = not {*self._floor.gpus_of(at)} & {*self._floor.gpus_of(wanted)}
        return apart and self._move(number, wanted, hop=False)

    def step_aside(self, waiting: Mapping[int, Placed], aside: set[int]) -> bool:
        """The lightest of those who wait goes to any place; each does so once."""
        for number in sorted(set(waiting) - aside, key=self._floor.mib.__getitem__):
            placed = next(self._seats.of(number), None)
            if placed is not None and self._move(number, placed, hop=True):
                aside.add(number)
                return True
        return False

    def _move(self, number: int, wanted: Placed, *, hop: bool) -> bool:
        # Other GPUs have no more room without it, so it need not be there while one looks.
        mark, source = self._floor.mark(), self._floor.lift(number)
        placed = same_place(self._floor, wanted)
        if placed is None:
            self._floor.back_to(mark)
            return False
        self._floor.put(placed, number)
        self.done.append(move(self._floor, number, source, placed, hop=hop))
        return True
