"""Values of GPU states in MIG and mixed-size mode: how much GPU a pool will refuse later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.supply import GpuSupply
from vgpumgr.placement.resources.demand import whole
from vgpumgr.placement.resources.gpu_state import BoardBook, BoardLayout, GpuOccupancy, state_key
from vgpumgr.placement.resources.host_state import HostState
from vgpumgr.placement.scores.fragmentation import Weighted
from vgpumgr.placement.tables.gpu_states import MILLI
from vgpumgr.placement.tables.request_types import parts_of
from vgpumgr.placement.tables.state_space import StateSpace, state_space


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


Ints = NDArray[np.int64]


def state_classes(space: StateSpace) -> Ints:
    """The class of each state, numbered from 0 in the order of the states.

    Two states are in one class when each part leads both into the same classes, and so does each
    departure: the coarsest such partition, by refinement. The slices 0-1 and 2-3 of a MIG grid,
    for one, may be swapped: 723 states become 273 classes.
    """
    classes, count = [0] * len(space.free), 1
    while True:
        known: dict[Hashable, int] = {}
        classes = [
            known.setdefault(_sight(space, state, classes), len(known))
            for state in range(len(classes))
        ]
        if len(known) == count:
            return np.array(classes, np.int64)
        count = len(known)


def _sight(space: StateSpace, state: int, classes: list[int]) -> Hashable:
    return (
        space.free[state],
        tuple(
            tuple(sorted({classes[step.after] for step in found})) for found in space.takes[state]
        ),
        tuple(sorted((step.part, classes[step.after]) for step in space.leaves[state])),
    )


Floats = NDArray[np.float64]


_TIME = 0.05
"""Length of a step towards balance, in mean lifetimes of a VM."""

_FEW = 1e-9


@dataclass(frozen=True, slots=True)
class _Reached:
    """One part under a policy: the classes that take it, best first, and what they become.

    ``rate`` is how many come per lifetime, in the whole pool; ``met`` the chance that a request
    gets as far as each class, ``none`` that no GPU is in it; ``lost`` that it finds nothing.
    """

    rate: float
    classes: Ints
    after: Ints
    gpus: Floats
    met: Floats
    none: Floats
    lost: float


class FluidModel:
    """Arrivals by part (per GPU and lifetime), departures one per VM and lifetime.

    ``fits[part, class]`` is 1 where the part has room.
    """

    def __init__(
        self, space: StateSpace, classes: Ints, rates: Floats, sizes: Ints, gpus: float
    ) -> None:
        first = [int(state) for state in np.unique(classes, return_index=True)[1]]
        count, parts = len(first), len(space.parts)
        self._gpus, self._rates, self._sizes = gpus, rates * gpus, sizes
        takes = [
            [sorted({int(classes[step.after]) for step in of}) for of in space.takes[state]]
            for state in first
        ]
        most = max((len(found) for of in takes for found in of), default=0) or 1
        self._takes = np.full((parts, count, most), count)
        self._leaves = np.zeros((count, count))
        for number, state in enumerate(first):
            for part, found in enumerate(takes[number]):
                self._takes[part, number, : len(found)] = found
            for step in space.leaves[state]:
                self._leaves[number, classes[step.after]] += 1
                self._leaves[number, number] -= 1
        self.fits: Ints = (self._takes[:, :, 0] < count).astype(np.int64)

    def empty(self) -> Floats:
        """All GPUs empty."""
        return np.asarray(np.eye(len(self._leaves))[0])

    def settle(self, shares: Floats, values: Floats, steps: int) -> Floats:
        """The shares some steps later, when requests are placed by ``values``."""
        orders = list(self._orders(values))
        one = np.eye(len(shares))
        for _ in range(steps):
            rates = self._leaves.copy()
            for each in self._reached(orders, shares):
                crowd = np.maximum(each.gpus, _FEW)
                taken = np.where(each.gpus > _FEW, (1 - each.none) / crowd, 1.0)
                flow = each.rate * each.met * taken
                rates[each.classes, each.after] += flow
                rates[each.classes, each.classes] -= flow
            shares = np.maximum(np.linalg.solve((one - _TIME * rates).T, shares), 0)
            shares /= shares.sum()
        return shares

    def losses(self, shares: Floats, values: Floats) -> Floats:
        """What a GPU more in each class, and an empty one less, adds to all later losses.

        In units, summed over the time in which the pool returns to balance.
        """
        count = len(shares)
        change, now = self._leaves.copy(), np.zeros(count)
        for each, size in zip(
            self._reached(list(self._orders(values)), shares), self._sizes, strict=True
        ):
            now[each.classes] += each.rate * size * each.lost
            change[each.classes] += each.rate * self._shift(each, count)
        system = np.zeros((count + 1, count + 1))
        system[:count, :count] = change
        system[:count, count] = -1.0
        system[count, 0] = 1.0
        system += _FEW * np.eye(count + 1)
        # A GPU more where a part has room is a loss less: the pool refuses it less often.
        found = np.linalg.solve(system, np.append(now, 0.0))[:count]
        return np.asarray(found - found[0])

    def _shift(self, each: _Reached, count: int) -> Floats:
        """How one GPU more in a class changes where the part goes, by class it leaves and meets."""
        number = np.arange(len(each.classes))
        moves = np.zeros((len(number), count))
        moves[number, each.after] += 1
        moves[number, each.classes] -= 1
        goes = (each.met * (1 - each.none))[:, None] * moves
        later = np.cumsum(goes[::-1], axis=0)[::-1]
        shift = (each.met * each.none)[:, None] * moves
        shift[:-1] -= later[1:]
        return shift

    def _orders(self, values: Floats) -> Iterator[tuple[Ints, Ints]]:
        known = np.append(values, np.inf)
        for takes, fits in zip(self._takes, self.fits, strict=True):
            classes = np.flatnonzero(fits)
            worth = known[takes[classes]]
            best = worth.argmin(axis=1)
            after = takes[classes, best]
            order = np.argsort(worth.min(axis=1) - values[classes], kind="stable")
            yield classes[order], after[order]

    def _reached(self, orders: list[tuple[Ints, Ints]], shares: Floats) -> Iterator[_Reached]:
        for rate, (classes, after) in zip(self._rates, orders, strict=True):
            gpus = self._gpus * shares[classes]
            none = np.exp(-gpus)
            gone = np.concatenate(([1.0], np.exp(-np.cumsum(gpus))))
            yield _Reached(float(rate), classes, after, gpus, gone[:-1], none, float(gone[-1]))


# Waste (``capacity-first``) says what of a GPU is useless now. A value says what will be lost
# because of it: how much GPU the pool will refuse, in expectation, from now until it has forgotten
# that one GPU was in this state and not empty.
#
# The pool is taken as a fluid of GPUs: shares of GPUs by state, flows between them. A request goes
# to the best state that some GPU is in, so the chance that it reaches a state is the chance that
# all better ones are deserted; it is lost where all are. Linearised about the point where the flows
# balance, each state's contribution to later losses solves one linear system. Placing by these
# values changes the flows, so both are worked out in turn (policy iteration), in damped steps.
#
# One rule for all mixes and loads. Demand is taken to be as large as the pool: a mix then says all
# that is needed, rates do not have to be known, and from 0.7 to 1.15 of it the choices are the same
# but for noise. Departures are taken to be equally likely for all VMs.


ROUNDS = 40
"""Rounds of policy iteration; the mean of the last third is the answer, for it never settles."""

STEP = 0.15
"""How far each round goes towards the values it finds."""

BURSTS = 4.0
"""How much more the GPUs in a state vary in number than if GPUs were independent.

They are not: demand as a whole goes up and down. Taken as so many times fewer GPUs.
"""


def state_values(space: StateSpace, weights: Sequence[float], *, gpus: int) -> Floats:
    """The expected loss by state, in thousandths of a GPU; 0 for an empty GPU.

    ``weights`` are the shares of the parts in what is asked for, ``gpus`` the size of the pool.
    Lower is better; only differences mean something. An A100 in MIG takes some 0.5 s of CPU.
    Raises ValueError where no weight is positive, or one is negative.
    """
    share = np.array(weights, np.float64)
    sizes = np.array([space.size(part) for part in range(len(space.parts))])
    asked = float(share @ sizes)
    if asked <= 0 or (share < 0).any():
        raise ValueError("no weight of the mix is positive, or one is negative")
    classes = state_classes(space)
    flow = FluidModel(space, classes, share * space.units / asked, sizes, max(1.0, gpus / BURSTS))
    found = _iterate(flow, _waste(space, classes, flow.fits))
    return np.asarray(found[classes] * MILLI / space.units)


def _iterate(flow: FluidModel, values: Floats) -> Floats:
    shares = flow.settle(flow.empty(), values, 40)
    found = flow.losses(shares, values)
    values = values * _scale(shares, found, values)
    kept = []
    for turn in range(ROUNDS):
        values = (1 - STEP) * values + STEP * found
        if 3 * turn >= 2 * ROUNDS:
            kept.append(values)
        shares = flow.settle(shares, values, 3)
        found = flow.losses(shares, values)
    return np.asarray(np.mean(kept, axis=0))


def _scale(shares: Floats, found: Floats, values: Floats) -> float:
    """The factor that gives the first guess, which is of another unit, the spread of the losses
    found.
    """
    guessed = float(shares @ (values - shares @ values) ** 2)
    return float(np.sqrt(shares @ (found - shares @ found) ** 2 / guessed)) if guessed else 0.0


def _waste(space: StateSpace, classes: Ints, fits: Ints) -> Floats:
    """The first guess: free units that a part cannot use, all parts alike."""
    free = np.zeros(int(classes.max()) + 1)
    free[classes] = space.free
    return np.asarray((free * (fits == 0)).mean(axis=0))


# Waste says what of a GPU is useless now; the value of its state says what will be lost because of
# it (``state_values``). Where there is a value, it takes the place of the GPU's waste.
# Boards of one size at a time have few states too, but values place worse there than waste does. In
# mixed-size mode states are too many to be listed: see ``OpenStarts``.


FEW_STATES = 1500


@dataclass(frozen=True, slots=True)
class StateValues:
    """See ``Values``: of GPUs in MIG by ``listed``, in mixed-size mode by ``starts``."""

    listed: Mapping[Hashable, float]
    starts: OpenStarts

    def of(self, key: Hashable, gpu: GpuOccupancy) -> float | None:
        """See ``Values``."""
        found = self.listed.get(key)
        return self.starts.lost(gpu) if found is None else found


def values_of(
    hosts: Sequence[HostState], boards: BoardBook, mix: Sequence[Weighted], *, known: bool
) -> StateValues | None:
    """The values of these hosts' GPUs; None where no GPU has a value, as in most fleets.

    ``known``: the mix is of real requests. Values of GPUs in MIG go by its shares, so a mix that is
    merely assumed gives none.
    """
    listed = pool_values(hosts, boards, mix) if known else {}
    placed = any(board.placed for board in boards)
    return StateValues(listed, OpenStarts(mix)) if listed or placed else None


def pool_values(
    hosts: Sequence[HostState], boards: BoardBook, mix: Sequence[Weighted]
) -> dict[Hashable, float]:
    """The expected loss by state, in thousandths of a GPU, of every board in MIG."""
    found: dict[Hashable, float] = {}
    for gpu, count in _pools(hosts, boards):
        found |= _of_pool(gpu, count, mix)
    return found


def _pools(hosts: Sequence[HostState], boards: BoardBook) -> Iterator[tuple[GpuOccupancy, int]]:
    """An empty GPU of each kind in MIG, and how many there are."""
    counts: Counter[Hashable] = Counter()
    empty: dict[Hashable, GpuOccupancy] = {}
    for host in hosts:
        for supply in host.supply.gpus:
            if supply.gpu_slices and not supply.blocked:
                gpu = GpuOccupancy(host.name, _emptied(supply), boards)
                key = state_key(gpu)
                counts[key] += 1
                empty.setdefault(key, gpu)
    for key, gpu in empty.items():
        yield gpu, counts[key]


def _emptied(supply: GpuSupply) -> GpuSupply:
    return replace(
        supply, usages=(), instances=(), available={}, free_slots=tuple(range(supply.units))
    )


def _of_pool(gpu: GpuOccupancy, count: int, mix: Sequence[Weighted]) -> dict[Hashable, float]:
    asked = [each for each in mix if each.weight and _held(gpu, each)]
    parts = [parts_of(each.demand)[0] for each in asked]
    space = state_space(gpu, parts, FEW_STATES) if parts else None
    if space is None or not any(space.takes[0]):
        return {}  # or nothing that is asked for ever fits
    values = state_values(space, [each.weight for each in asked], gpus=count)
    return {key: float(values[number]) for key, number in space.numbers.items()}


def _held(gpu: GpuOccupancy, each: Weighted) -> bool:
    return len(each.demand.kinds) == 1 and bool(gpu.matching(each.demand.kinds[0]))
