"""Search for the fewest moves that reach a goal: greedy, then by choices of clearings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.defrag import DefragGoal, DefragMoves, EmptyGpus, NoDefragMoves, Resident, VmMove
from vgpumgr.model.supply import Fleet
from vgpumgr.placement.defrag.clearings import Clearing, Site, obstacles, sites
from vgpumgr.placement.defrag.movable_fleet import MovableFleet
from vgpumgr.placement.defrag.relocation import (
    Relocation,
    RelocationTrial,
    in_order,
    move,
    waiting_last,
)

Weight = Callable[[Clearing], float]


def fewest(sites: Sequence[Site], gain: int) -> int | None:
    """The least number of residents that leave where ``gain`` is won; None: it cannot be."""
    if gain > sum(max((each.gain for each in site), default=0) for site in sites):
        return None  # however much is asked for: the table below is as long
    least = np.full(gain + 1, np.inf)  # by what is won, or more
    least[0] = 0
    for site in sites:
        before = least
        for each in site:
            won, after = min(each.gain, gain), np.full(gain + 1, before[0])
            after[won:] = before[: gain + 1 - won]
            least = np.minimum(least, after + len(each.leaving))
    return int(least[gain]) if np.isfinite(least[gain]) else None


def lightest(sites: Sequence[Site], gain: int, moves: int, weight: Weight) -> list[Clearing] | None:
    """The lightest clearings that win ``gain`` with at most ``moves`` leaving; None: none do."""
    best = np.full((gain + 1, moves + 1), np.inf)  # by what is won, or more, and who may leave
    best[0] = 0.0
    steps = []
    for site in sites:
        before, chosen = best, np.zeros(best.shape, np.int16)
        for number, each in enumerate(site, 1):
            after = _with(before, each, weight(each))
            chosen[after < best] = number
            best = np.minimum(best, after)
        steps.append(chosen)
    if not np.isfinite(best[gain, moves]):
        return None
    return _traced(sites, steps, gain, moves)


def _with(best: NDArray[np.float64], each: Clearing, weight: float) -> NDArray[np.float64]:
    gain, moves = best.shape[0] - 1, best.shape[1] - 1
    won, left = min(each.gain, gain), len(each.leaving)
    after = np.full(best.shape, np.inf)
    if left <= moves:
        after[won:, left:] = best[: gain + 1 - won, : moves + 1 - left] + weight
        after[:won, left:] = best[0, : moves + 1 - left] + weight
    return after


def _traced(
    sites: Sequence[Site], steps: Sequence[NDArray[np.int16]], gain: int, moves: int
) -> list[Clearing]:
    found = []
    for site, chosen in zip(reversed(sites), reversed(steps), strict=True):
        number = int(chosen[gain, moves])
        if number:
            each = site[number - 1]
            found.append(each)
            gain, moves = max(0, gain - each.gain), moves - len(each.leaving)
    return found


def greedy(
    relocation_trial: RelocationTrial, sites: Sequence[Site], gain: int
) -> tuple[int, tuple[VmMove, ...]]:
    """What is won, at most ``gain``, and the moves for it, each feasible when it is due.

    A clearing after which a resident finds no place is left out. No resident goes to a GPU that was
    or will be cleared; no GPU is cleared that a resident went to.
    """
    trial, mark = relocation_trial.trial, relocation_trial.trial.mark()
    queue = _queue(relocation_trial, sites, gain)
    likely, ahead = [], 0
    for each in queue:
        if ahead < gain:
            likely.append(each)
            ahead += each.gain
    for each in likely:
        relocation_trial.targets.closed[list(each.gpus)] = True
    run = _Run(relocation_trial)
    for each in queue:
        if run.won >= gain:
            break
        run.carry_out(each)
    trial.back_to(mark)
    relocation_trial.targets.closed[:] = False
    return min(run.won, gain), tuple(run.moves.values())


def _queue(relocation_trial: RelocationTrial, sites: Sequence[Site], gain: int) -> list[Clearing]:
    """One clearing per site: the one that wins most per VM that leaves, and no more than needed."""
    mib = relocation_trial.trial.mib

    def price(each: Clearing) -> tuple[float, float]:
        won = min(each.gain, gain)
        weight = sum(mib[number] for number in each.leaving)
        return len(each.leaving) / won, weight / won

    return sorted((min(site, key=price) for site in sites), key=price)


class _Run:
    """The clearings carried out so far."""

    def __init__(self, relocation_trial: RelocationTrial) -> None:
        self.won = 0
        self.moves: dict[int, VmMove] = {}
        self._relocation_trial = relocation_trial
        self._taken: set[int] = set()

    def carry_out(self, each: Clearing) -> None:
        """As a whole, or not at all."""
        relocation_trial, trial = self._relocation_trial, self._relocation_trial.trial
        closed = relocation_trial.targets.closed
        if self._taken.intersection(each.gpus):
            closed[list(each.gpus)] = False
            return
        mark = trial.mark()
        leaving = {n: trial.lift(n) for n in each.leaving if n not in self.moves}
        order = sorted(leaving, key=trial.largest_first)
        if not (relocation_trial.hold(each) and all(map(relocation_trial.place, order))):
            trial.back_to(mark)
            closed[list(each.gpus)] = False
            return
        self.won += each.gain
        for number in order:
            at = trial.at[number]
            assert at is not None
            self._taken.update(trial.gpus_of(at))
            self.moves[number] = move(trial, number, leaving[number], at)


# A VM that finds no place is seated earlier the next time, and choices without it are preferred
# ("squeaky wheel", Joslin and Clements 1999).


_TRIES = 30
"""In a row, per number of moves and of those who make way."""

_PASSES = 8
"""Over all numbers of moves: what was learned at one of them helps at the others."""

_SPARE = 2
"""How many at most may make way for others."""


class ClearingSearch:
    """The search for one goal on one fleet. ``effort`` is how many places may be tried in all."""

    def __init__(
        self, relocation_trial: RelocationTrial, sites: Sequence[Site], gain: int, effort: int
    ) -> None:
        self._relocation_trial = relocation_trial
        self._sites = sites
        self._gain = gain
        self._effort = effort
        self._grudge: Counter[int] = Counter()
        self._failed: dict[object, Relocation] = {}
        self._unmet: defaultdict[Clearing, float] = defaultdict(float)
        self._all = 1e-9 + sum(relocation_trial.trial.mib)

    def run(self, least: int, most: int) -> tuple[VmMove, ...] | None:
        """Moves, at most ``most``; ``least`` is where to begin."""
        found: tuple[VmMove, ...] | None = None
        for _ in range(_PASSES):
            known = len(self._failed)
            for moves, spare in self._levels(least, most):
                for _ in range(_TRIES if moves <= most else 0):
                    if self._relocation_trial.targets.tries > self._effort:
                        return found
                    better = self._try(moves - spare, spare)
                    if better is not None and len(better) <= most:
                        found, most = better, len(better) - 1
                        break
            if len(self._failed) == known:
                break  # nothing was tried that had not been
        return found

    def _levels(self, least: int, most: int) -> Iterator[tuple[int, int]]:
        """Moves in all, and how many of them are of VMs that make way."""
        for moves in range(least, most + 1):
            for spare in range(min(_SPARE, moves - least) + 1):
                yield moves, spare

    def _try(self, leaving: int, spare: int) -> tuple[VmMove, ...] | None:
        chosen = lightest(self._sites, self._gain, leaving, self._weight)
        if chosen is None:
            return None
        order = sorted({number for each in chosen for number in each.leaving}, key=self._order)
        tried = tuple(each.gpus for each in chosen), tuple(order), spare
        relocation = self._failed.get(tried)
        if relocation is not None:
            for each in chosen:
                self._unmet[each] += 1 / len(chosen)  # look elsewhere
        else:
            relocation = self._relocation_trial.relocate(chosen, order, spare)
            if relocation.complete:
                moves = in_order(self._relocation_trial.trial, relocation.places)
                if moves is not None:
                    return moves
            self._failed[tried] = relocation
        self._learn(chosen, relocation)
        return None

    def _order(self, number: int) -> tuple[float, ...]:
        return -self._grudge[number], *self._relocation_trial.trial.largest_first(number)

    def _weight(self, each: Clearing) -> float:
        """Grudges first; where there are none, what is carried over."""
        carried = sum(self._relocation_trial.trial.mib[number] for number in each.leaving)
        grudge = sum(self._grudge[number] for number in each.leaving)
        return carried / self._all + grudge + self._unmet[each]

    def _learn(self, chosen: Sequence[Clearing], relocation: Relocation) -> None:
        self._grudge.update(relocation.unplaced)
        if relocation.complete:  # but nobody could go first
            self._grudge.update(relocation.places.keys())
        for each in relocation.unmet:
            self._unmet[each] += 1
        # An empty GPU had perhaps better been left to the homeless.
        empty = [each for each in chosen if not each.leaving] if relocation.unplaced else []
        for each in empty:
            self._unmet[each] += 1 / len(empty)


EFFORT = 20_000
"""Seats looked at in search of fewer moves."""

_BEYOND = 8
"""How many more moves than the least are tried where the quick way fails."""

_LARGEST = 1 << 20
"""Sites × gain × moves: beyond that it takes too long to weigh choices, and the quick way is it."""


def plan_moves(
    fleet: Fleet,
    residents: Sequence[Resident],
    goal: DefragGoal,
    *,
    most: int | None = None,
    effort: int = EFFORT,
) -> DefragMoves | NoDefragMoves:
    """The moves for one goal: see :meth:`MovePlanner.plan`."""
    return MovePlanner(fleet, residents).plan(goal, most=most, effort=effort)


class MovePlanner:
    """Plans moves on one fleet, for one goal after the other.

    ``fleet`` is the supply without the residents.
    """

    def __init__(self, fleet: Fleet, residents: Sequence[Resident]) -> None:
        self._trial = MovableFleet(fleet, residents)

    def plan(
        self, goal: DefragGoal, *, most: int | None = None, effort: int = EFFORT
    ) -> DefragMoves | NoDefragMoves:
        """The fewest moves, at most ``most``, that reach the goal; of as many, the lightest.

        Moves go to GPUs of other hosts or of the VM's own, as its ways lead, and are feasible one
        after the other by all rules of placement. A quick solution is searched for first, then one
        with fewer moves as long as ``effort`` lasts, so ``DefragMoves.fewest`` may be False.
        Deterministic.
        """
        trial = self._trial
        gain = goal.gpus if isinstance(goal, EmptyGpus) else goal.count
        found = sites(trial, goal)
        relocation_trial = RelocationTrial(trial, goal)
        won, quick = greedy(relocation_trial, found, gain)
        moves = quick if won >= gain else None
        least = fewest(found, gain)
        if least is not None:
            search = ClearingSearch(relocation_trial, found, gain, effort)
            moves = _better(search, found, gain, least, moves) or moves
        if moves is None:
            return NoDefragMoves(reachable=won, obstacles=obstacles(trial, goal))
        if most is not None and len(moves) > most:
            return NoDefragMoves(reachable=won, needs=len(moves))
        surely = len(moves) <= 1 or (len(moves) == least and _counted(trial, goal))
        return DefragMoves(moves=waiting_last(moves), fewest=surely)


def _better(
    search: ClearingSearch,
    sites: Sequence[Site],
    gain: int,
    least: int,
    moves: tuple[VmMove, ...] | None,
) -> tuple[VmMove, ...] | None:
    most = least + _BEYOND if moves is None else len(moves) - 1
    if len(sites) * gain * most > _LARGEST:
        return None
    return search.run(least, most)


def _counted(trial: MovableFleet, goal: DefragGoal) -> bool:
    """Whether the least number of VMs that leave is surely the least number of moves."""
    return isinstance(goal, EmptyGpus) and all(
        len(trial.gpus_of(each.placed)) == 1 for each in trial.residents
    )
