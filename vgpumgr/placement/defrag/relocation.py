"""Relocation: places for all VMs that must leave, and an order of moves in which each place is
free.

None goes to a GPU that it is on, so it makes no difference there that a VM holds its place
until it is gone; on its own host it is off when its vCPUs and memory are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vgpumgr.model.defrag import DefragGoal, FreeRoom, MoveMode, VmMove
from vgpumgr.model.placement import Placed
from vgpumgr.placement.defrag.clearings import Clearing
from vgpumgr.placement.defrag.movable_fleet import MovableFleet, MoveTargets, same_place, sit


def move(
    floor: MovableFleet, number: int, source: Placed, target: Placed, *, hop: bool = False
) -> VmMove:
    """A resident's move, with the way it has there."""
    resident = floor.residents[number]
    way = resident.way(target.host)
    assert way is not None, "nobody is seated where no way leads"
    mib, pause_s = resident.mib(way), resident.pause_s(way)
    return VmMove(
        source=source,
        target=target,
        way=way,
        mib=mib,
        pause_s=pause_s,
        hop=hop,
        user=resident.user,
    )


def waiting_last(moves: Iterable[VmMove]) -> tuple[VmMove, ...]:
    """Those that wait for a user to log off after all others."""
    return tuple(sorted(moves, key=lambda each: each.way.how is MoveMode.LOGOFF))


def in_order(floor: MovableFleet, places: Mapping[int, Placed]) -> tuple[VmMove, ...] | None:
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

    def __init__(self, floor: MovableFleet) -> None:
        self.done: list[VmMove] = []
        self._floor = floor
        self._seats = MoveTargets(floor)

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


_FEW = 8
"""So many who leave may all be seated otherwise where the tightest seats leave somebody out."""

_LOOKS = 400
"""At seats, at most, to seat them otherwise."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """Where everybody who moves ends up; ``homeless`` found nothing, nor did ``unmet`` clearings
    give what they promised, taken together.
    """

    places: dict[int, Placed]
    homeless: tuple[int, ...] = ()
    unmet: tuple[Clearing, ...] = ()

    @property
    def complete(self) -> bool:
        """Everybody has a place, and the goal is met."""
        return not self.homeless and not self.unmet


class RelocationTrial:
    """Tries clearings on a floor, which is as before when a method returns."""

    def __init__(self, floor: MovableFleet, goal: DefragGoal) -> None:
        self.floor = floor
        self.goal = goal
        self.seats = MoveTargets(floor)

    def settle(
        self, chosen: Sequence[Clearing], order: Sequence[int], spare: int = 0
    ) -> Relocation:
        """All clearings together; who leaves is seated in this order. Up to ``spare`` more may
        move to make way for those.
        """
        floor, mark = self.floor, self.floor.mark()
        for number in order:
            floor.lift(number)
        unmet = tuple(each for each in chosen if not self.hold(each))
        lifted = floor.mark()
        moved, homeless = self._in_turn(order, spare)
        if homeless and len(order) <= _FEW:
            floor.back_to(lifted)
            if self._otherwise(order, self.seats.looks + _LOOKS):
                moved, homeless = set(order), ()
        places = {number: at for number in moved if (at := floor.at[number])}
        floor.back_to(mark)
        for each in chosen:
            self.seats.closed[list(each.gpus)] = False
        return Relocation(places, homeless, unmet)

    def hold(self, clearing: Clearing) -> bool:
        """Keep for the goal what a clearing gives; False where it does not give it after all."""
        if not isinstance(self.goal, FreeRoom):
            self.seats.closed[list(clearing.gpus)] = True
            return True
        for _ in range(clearing.gain):
            placed = sit(self.floor, self.goal.request, clearing.gpus)
            if placed is None:
                return False
            self.floor.put(placed)
        return True

    def seat(self, number: int) -> bool:
        """Put a lifted resident on the tightest seat; False where there is none."""
        found = next(self.seats.of(number), None)
        if found is not None:
            self.floor.put(found, number)
        return found is not None

    def _in_turn(self, order: Sequence[int], spare: int) -> tuple[set[int], tuple[int, ...]]:
        """Who moved, and who found nothing: each takes the tightest seat left."""
        moved, homeless = set(order), []
        for number in order:
            if self.seat(number):
                continue
            others = self._make_way(number, moved, spare)
            if not others:
                homeless.append(number)
            moved.update(others)
            spare -= len(others)
        return moved, tuple(homeless)

    def _otherwise(self, order: Sequence[int], looks: int) -> bool:
        """Seat everybody, some not as tightly, as long as there are looks left."""
        if not order:
            return True
        floor, (number, *later) = self.floor, order
        for placed in self.seats.of(number):
            mark = floor.mark()
            floor.put(placed, number)
            if self._otherwise(later, looks):
                return True
            floor.back_to(mark)
            if self.seats.looks > looks:
                break
        return False

    def _make_way(self, number: int, moved: Collection[int], spare: int) -> tuple[int, ...]:
        """At most ``spare`` who moved away for this resident, all seated; () where none can."""
        if not spare:
            return ()
        floor = self.floor
        for other, gpus in self._in_the_way(number):
            if other in moved:
                continue
            mark = floor.mark()
            floor.lift(other)
            self.seats.looks += 1
            placed = sit(floor, floor.residents[number].placed.request, gpus)
            if placed is not None:
                floor.put(placed, number)
                if self.seat(other):
                    return (other,)
                if further := self._make_way(other, {*moved, other}, spare - 1):
                    return (other, *further)
            floor.back_to(mark)
        return ()

    def _in_the_way(self, number: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Residents, the smallest first, on GPUs to which this one has a way."""
        floor, resident = self.floor, self.floor.residents[number]
        found = []
        for other, each in enumerate(floor.residents):
            at = floor.at[other]
            if other != number and at is not None and each.movable and resident.way(at.host):
                gpus = floor.gpus_of(at)
                mine = floor.gpus_of(resident.placed)
                if not {*gpus} & {*mine} and not self.seats.closed[list(gpus)].any():
                    found.append((floor.mib[other], other, gpus))
        for _, other, gpus in sorted(found):
            yield other, gpus
