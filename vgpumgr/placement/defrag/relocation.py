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
from vgpumgr.placement.defrag.movable_fleet import MovableFleet, MoveTargets, fit_among, same_place


def move(
    trial: MovableFleet, number: int, source: Placed, target: Placed, *, hop: bool = False
) -> VmMove:
    """A resident's move, with the way it has there."""
    resident = trial.residents[number]
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
    """The moves in an order in which those that wait for a user to log off come last."""
    return tuple(sorted(moves, key=lambda each: each.way.how is MoveMode.LOGOFF))


def in_order(trial: MovableFleet, places: Mapping[int, Placed]) -> tuple[VmMove, ...] | None:
    """Moves that bring every resident to its place; the fleet is as before. None: no order was
    found.

    Where all moves wait for each other, the lightest resident makes a move aside first (a hop).
    """
    mark, steps = trial.mark(), _Steps(trial)
    left = dict(places)
    aside: set[int] = set()
    while left:
        ready = [number for number in left if steps.go(number, left[number])]
        for number in ready:
            del left[number]
        if not ready and not steps.step_aside(left, aside):
            break
    trial.back_to(mark)
    return None if left else tuple(steps.done)


class _Steps:
    """The moves so far."""

    def __init__(self, trial: MovableFleet) -> None:
        self.done: list[VmMove] = []
        self._trial = trial
        self._targets = MoveTargets(trial)

    def go(self, number: int, wanted: Placed) -> bool:
        """To its last place, if that is free now, and on no GPU that it is on.

        Its ways lead from where it was at first: it goes back to that host from there alone.
        """
        at, home = self._trial.at[number], self._trial.residents[number].placed.host
        assert at is not None
        if wanted.host in {at.host, home} and at.host != home:
            return False
        apart = not {*self._trial.gpus_of(at)} & {*self._trial.gpus_of(wanted)}
        return apart and self._move(number, wanted, hop=False)

    def step_aside(self, waiting: Mapping[int, Placed], aside: set[int]) -> bool:
        """Move the lightest of the waiting residents to any place; each moves aside once."""
        for number in sorted(set(waiting) - aside, key=self._trial.mib.__getitem__):
            placed = next(self._targets.of(number), None)
            if placed is not None and self._move(number, placed, hop=True):
                aside.add(number)
                return True
        return False

    def _move(self, number: int, wanted: Placed, *, hop: bool) -> bool:
        # Other GPUs have no more room without it, so it need not be there while one looks.
        mark, source = self._trial.mark(), self._trial.lift(number)
        placed = same_place(self._trial, wanted)
        if placed is None:
            self._trial.back_to(mark)
            return False
        self._trial.put(placed, number)
        self.done.append(move(self._trial, number, source, placed, hop=hop))
        return True


_FEW = 8
"""So many who leave may all be seated otherwise where the tightest seats leave somebody out."""

_LOOKS = 400
"""At seats, at most, to seat them otherwise."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """Where every resident that moves ends up.

    Residents ``unplaced`` found no place; clearings ``unmet`` did not give their gain, taken
    together.
    """

    places: dict[int, Placed]
    unplaced: tuple[int, ...] = ()
    unmet: tuple[Clearing, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every resident has a place, and the goal is met."""
        return not self.unplaced and not self.unmet


class RelocationTrial:
    """Tries clearings on a fleet, which is as before when a method returns."""

    def __init__(self, trial: MovableFleet, goal: DefragGoal) -> None:
        self.trial = trial
        self.goal = goal
        self.targets = MoveTargets(trial)

    def relocate(
        self, chosen: Sequence[Clearing], order: Sequence[int], spare: int = 0
    ) -> Relocation:
        """All clearings together; residents that leave are placed in this order. Up to ``spare``
        more residents may move to make way for those.
        """
        trial, mark = self.trial, self.trial.mark()
        for number in order:
            trial.lift(number)
        unmet = tuple(each for each in chosen if not self.hold(each))
        lifted = trial.mark()
        moved, unplaced = self._in_turn(order, spare)
        if unplaced and len(order) <= _FEW:
            trial.back_to(lifted)
            if self._place_otherwise(order, self.targets.tries + _LOOKS):
                moved, unplaced = set(order), ()
        places = {number: at for number in moved if (at := trial.at[number])}
        trial.back_to(mark)
        for each in chosen:
            self.targets.closed[list(each.gpus)] = False
        return Relocation(places, unplaced, unmet)

    def hold(self, clearing: Clearing) -> bool:
        """Keep for the goal what a clearing gives; False where it does not give it after all."""
        if not isinstance(self.goal, FreeRoom):
            self.targets.closed[list(clearing.gpus)] = True
            return True
        for _ in range(clearing.gain):
            placed = fit_among(self.trial, self.goal.request, clearing.gpus)
            if placed is None:
                return False
            self.trial.put(placed)
        return True

    def place(self, number: int) -> bool:
        """Put a resident that was taken off on the tightest place; False where there is none."""
        found = next(self.targets.of(number), None)
        if found is not None:
            self.trial.put(found, number)
        return found is not None

    def _in_turn(self, order: Sequence[int], spare: int) -> tuple[set[int], tuple[int, ...]]:
        """The residents that moved, and those that found no place: each takes the tightest left."""
        moved, unplaced = set(order), []
        for number in order:
            if self.place(number):
                continue
            others = self._make_way(number, moved, spare)
            if not others:
                unplaced.append(number)
            moved.update(others)
            spare -= len(others)
        return moved, tuple(unplaced)

    def _place_otherwise(self, order: Sequence[int], tries: int) -> bool:
        """Place every resident, some not as tightly, as long as tries are left."""
        if not order:
            return True
        trial, (number, *later) = self.trial, order
        for placed in self.targets.of(number):
            mark = trial.mark()
            trial.put(placed, number)
            if self._place_otherwise(later, tries):
                return True
            trial.back_to(mark)
            if self.targets.tries > tries:
                break
        return False

    def _make_way(self, number: int, moved: Collection[int], spare: int) -> tuple[int, ...]:
        """At most ``spare`` residents that moved away for this one, all placed; () where none."""
        if not spare:
            return ()
        trial = self.trial
        for other, gpus in self._in_the_way(number):
            if other in moved:
                continue
            mark = trial.mark()
            trial.lift(other)
            self.targets.tries += 1
            placed = fit_among(trial, trial.residents[number].placed.request, gpus)
            if placed is not None:
                trial.put(placed, number)
                if self.place(other):
                    return (other,)
                if further := self._make_way(other, {*moved, other}, spare - 1):
                    return (other, *further)
            trial.back_to(mark)
        return ()

    def _in_the_way(self, number: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Residents, the smallest first, on GPUs to which this resident can move."""
        trial, resident = self.trial, self.trial.residents[number]
        found = []
        for other, each in enumerate(trial.residents):
            at = trial.at[other]
            if other != number and at is not None and each.movable and resident.way(at.host):
                gpus = trial.gpus_of(at)
                mine = trial.gpus_of(resident.placed)
                if not {*gpus} & {*mine} and not self.targets.closed[list(gpus)].any():
                    found.append((trial.mib[other], other, gpus))
        for _, other, gpus in sorted(found):
            yield other, gpus
