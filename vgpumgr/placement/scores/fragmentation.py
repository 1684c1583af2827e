"""Fragmentation score and gauge: how much idle GPU no request of the mix can use.

Idle GPU on a host is useless to a request that does not find room on it: too little of that
GPU, too few GPUs, vCPUs or memory left. Its *waste* is how much is useless to a request drawn
from the mix, on average, in thousandths of a GPU (the measure of "Beware of Fragmentation",
USENIX ATC 2023, kept in fractions and with memory). A placement scores by how much less waste
it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.supply import GpuSupply, Offer
from vgpumgr.placement.resources.demand import Demand, whole
from vgpumgr.placement.resources.gpu_state import BoardLayout, GpuOccupancy
from vgpumgr.placement.tables.gpu_states import MILLI, StateTable, grown, stepped
from vgpumgr.placement.tables.host_table import HostRows
from vgpumgr.placement.tables.request_types import Floats, Ints, parts_of

NO_SIZE = -1.0
"""Of boards of which nothing, a whole GPU or several sizes are expected."""


class EqualSizes:
    """The expected size by board; ``demands`` are all that is expected, however rarely."""

    def __init__(self, demands: Sequence[Demand]) -> None:
        self._demands = tuple(dict.fromkeys(demands))
        self._known: dict[BoardLayout, float] = {}

    def of(self, board: BoardLayout | None) -> float:
        """What one part takes of a GPU of this board, in thousandths; ``NO_SIZE``."""
        if board is None:
            return NO_SIZE
        if board not in self._known:
            self._known[board] = self._size(board)
        return self._known[board]

    def _size(self, board: BoardLayout) -> float:
        sizes: set[Hashable] = set()
        units = 0
        for demand in self._demands:
            offers = [each for kind in demand.kinds for each in board.matching(kind)[:1]]
            if not offers:
                continue
            if demand.parts > 1 or whole(offers[0]):
                return NO_SIZE
            sizes.add((_size_of(offers[0]), _rest_of(demand)))
            units = offers[0].units
        return MILLI * units / board.units if len(sizes) == 1 and board.units else NO_SIZE


def _size_of(offer: Offer) -> Hashable:
    made = offer.instance.profile_id if offer.instance else None
    return offer.units, offer.size_class, offer.starts, made


def _rest_of(demand: Demand) -> Hashable:
    """What a VM takes of the host besides GPUs."""
    pages = demand.hugepage_kib, demand.pages
    return demand.vcpus, demand.memory_mib, pages, demand.pin_cpus, demand.numa


BEST_FIT = 0.05
"""What leaving a whole host idle costs, as a share of a GPU: little, but it settles near ties."""


CUT_LAST = 0.001
"""What it costs to cut up a GPU by how much of it is free: it settles ties, nothing more."""


def leftover(cpus: Floats, gpus: Floats) -> Floats:
    """The best-fit term: vCPUs and GPUs that stay idle, each as a share of the largest host's."""
    cost: Floats = BEST_FIT * 1000.0 * (cpus + gpus)
    return cost


def cutting(free: Floats) -> Floats:
    """The cost of taking a part of GPUs with so many thousandths free."""
    cost: Floats = CUT_LAST * free
    return cost


CROWDED = 0.1
"""What a GPU costs by how much of it is used, where it wins nothing to fill GPUs up."""


def crowding(used: Floats, on_host: Floats) -> Floats:
    """The cost of joining others on GPUs with so many thousandths used, where packing wins nothing.

    Then by how much of the GPUs ``on_host`` is used, in thousandths of the largest host: it settles
    ties.
    """
    cost: Floats = CROWDED * used + CUT_LAST * on_host
    return cost


SAME = 1e-6
"""Thousandths that differ by less are of the same part."""

OFF_GPUS = 65536.0
"""What a host without GPUs is worth to a VM without any: more than all else, and a power of two,
so that scores on hosts with GPUs keep their precision."""


@dataclass(frozen=True, slots=True)
class Weighted:
    """A demand of the mix and its share of all requests; 0: expected, but too rare to count."""

    demand: Demand
    weight: float


_PLENTY = 1e6

_SHARE = 2.0**-24
"""Weights are rounded to it, as thousandths are (``STEP``): what is useful is summed exactly."""

Worths = Callable[[Ints], NDArray[np.float64]]
"""What GPUs in these states (rows) are worth, in thousandths of a GPU."""


class Values(Protocol):
    """What states of GPUs will lose."""

    def of(self, key: Hashable, gpu: GpuOccupancy) -> float | None:
        """In thousandths of a GPU, by the key of the state and a GPU in it; None: nothing is said.

        Differences alone mean something.
        """
        ...


Measure = NDArray[np.float64] | NDArray[np.float32]
"""By row of the table; float32 where that holds it exactly."""


def summed(values: Measure, axis: int = 1) -> Floats:
    """The exact sum (``STEP``)."""
    total: Floats = values.sum(axis=axis, dtype=np.float64)
    return total


class MixRows:
    """The mix against the states of the table, its entries by vCPUs; ``seen`` rows are known.

    ``room[row, m]`` is how many parts of entry m a GPU in that state takes, ``useful[row, m]`` its
    free thousandths where there is room. ``waste[row]`` is what a GPU wastes taken by itself,
    ``worth[row]`` what it is worth by the capacity plan and by ``values``. Where ``values`` say
    what a state will lose, that replaces its waste, and ``idle[row]``, its free thousandths, is 0.
    ``size[row]`` is what the only part that is expected on such a GPU takes of it (``EqualSizes``).
    """

    def __init__(
        self,
        mix: list[Weighted],
        table: StateTable,
        values: Values | None = None,
    ) -> None:
        self._sizes = EqualSizes([each.demand for each in mix if each.demand.kinds])
        mix = [each for each in mix if each.demand.kinds and each.weight]
        mix.sort(key=lambda each: each.demand.vcpus)
        self._table = table
        self.seen = 0
        total = sum(each.weight for each in mix) or 1.0
        demands = [each.demand for each in mix]
        self._values = values
        self._kinds = [demand.kinds[0] for demand in demands]
        self._columns = [table.column(parts_of(demand)[0]) for demand in demands]
        self.cpu = np.array([d.vcpus for d in demands], np.int64)
        self.memory = np.array([d.memory_mib for d in demands], np.int64)
        self.need = np.array([d.kinds[0].count for d in demands], np.float64)
        shares = np.array([each.weight / total for each in mix], np.float64)
        self.weight = np.rint(shares / _SHARE) * _SHARE
        self.room = np.zeros((64, len(mix)), np.float32)
        self.useful = np.zeros((64, len(mix)), np.float32)
        self.free = np.zeros(64, np.float64)
        self.idle = np.zeros(64, np.float64)
        self.waste = np.zeros(64, np.float64)
        self.worth = np.zeros(64, np.float64)
        self.size = np.full(64, NO_SIZE, np.float64)
        self.spreading = False
        self._worths: Worths | None = None

    def catch_up(self) -> None:
        """Take in the rows that came up since."""
        end = self._table.rows
        if end == self.seen:
            return
        self._grow(end)
        new = slice(self.seen, end)
        room, free = self._table.room[new, self._columns], stepped(self._table.free[new])
        self.room[new] = room
        self.free[new] = self.idle[new] = free
        self.useful[new] = np.where(room > 0, free[:, None], 0.0)
        for row in range(new.start, new.stop):
            self._take_value(row)
            self.size[row] = self._sizes.of(self._table.board(row))
        self.spreading = bool((self.size > NO_SIZE).any())
        self.waste[new] = self.free[new] - self.useful[new] @ self.weight
        self.seen = end
        if self._worths is not None:
            self.worth[new] += stepped(self._worths(np.arange(new.start, new.stop)))
            self.catch_up()

    def value(self, worths: Worths | None) -> None:
        """Take what GPUs are worth by their states from here; None: nothing."""
        self._worths, self.seen = worths, 0
        self.worth[:] = 0.0
        self.catch_up()

    def _take_value(self, row: int) -> None:
        """Let the value replace the waste of the entries that the board can make."""
        key = self._table.keys.get(row)
        if self._values is None or key is None:
            return
        value = self._values.of(key, self._table.sample(row))
        if value is not None:
            self.worth[row] -= stepped(np.array(value))
            self.idle[row] = 0.0
            made = self._made(row)
            self.room[row, made] = _PLENTY
            self.useful[row, made] = self.free[row]

    def _made(self, row: int) -> list[int]:
        gpu = self._table.sample(row)
        return [n for n, kind in enumerate(self._kinds) if gpu.matching(kind)]

    def after(self, rows: Ints, columns: Ints) -> Ints:
        """What GPUs become with one more of a part, at the place that keeps the most value.

        Each GPU must have room for it.
        """
        if self._values is None:
            return self._table.after[rows, columns].astype(np.int64)
        cells, of = np.unique(np.stack([rows, columns]), axis=1, return_inverse=True)
        found = [self.after_one(*cell) for cell in cells.T.tolist()]
        return np.array(found, np.int64)[of.reshape(-1)]

    def after_one(self, row: int, column: int) -> int:
        """The same of a single GPU."""
        if self._values is None:
            return int(self._table.after[row, column])
        choices = self._table.choices(row, column)
        self.catch_up()
        return max(choices, key=lambda row: self.worth[row])

    @property
    def valued(self) -> bool:
        """Whether states have values, so that places on one GPU differ."""
        return self._values is not None

    def open_to(self, cpu: Ints, memory: Ints) -> Floats:
        """1 where vCPUs and memory left on a host (any shape) suffice an entry, by entry."""
        enough = (cpu[..., None] >= self.cpu) & (memory[..., None] >= self.memory)
        return enough.astype(np.float64)

    def _grow(self, end: int) -> None:
        shape = end, len(self.need)
        self.room = grown(self.room, shape)
        self.useful = grown(self.useful, shape)
        self.free = grown(self.free, shape[:1])
        self.idle = grown(self.idle, shape[:1])
        self.waste = grown(self.waste, shape[:1])
        self.worth = grown(self.worth, shape[:1])
        self.size = grown(self.size, shape[:1], NO_SIZE)

    def loss(self, before: int, after: int) -> tuple[float, float, int]:
        """How bad it is that a GPU goes from one state to another; lower is better."""
        waste = self.waste[after] - self.waste[before] - self.worth[after] + self.worth[before]
        return float(waste), float(self.free[before]), before


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFragmentation:
    """One host: free GPU memory, and how much of it no request of the mix can use there.

    A GPU's free memory is of no use where no request of the mix finds room on it, with the vCPUs
    and memory that the host has left. ``expected_mib`` is what a request drawn from the mix cannot
    use on average: it is never less.
    """

    host: str
    free_mib: float
    unusable_mib: float
    expected_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """The fleet's gauge, and its hosts in the fleet's order; hosts without GPUs are left out."""

    hosts: tuple[HostFragmentation, ...]

    @property
    def free_mib(self) -> float:
        """Free GPU memory in all."""
        return sum(host.free_mib for host in self.hosts)

    @property
    def unusable_mib(self) -> float:
        """Free GPU memory that no request of the mix can use where it is."""
        return sum(host.unusable_mib for host in self.hosts)

    @property
    def share(self) -> float:
        """Unusable ÷ free, between 0 and 1; 0 where nothing is free."""
        free = self.free_mib
        return self.unusable_mib / free if free else 0.0


def fragmentation(hosts: HostRows, mix: MixRows) -> Iterator[HostFragmentation]:
    """Every host that has GPUs."""
    mix.catch_up()
    for number, host in enumerate(hosts.states):
        if host.supply.gpus:
            yield _of_host(hosts, mix, number)


def _of_host(hosts: HostRows, mix: MixRows, number: int) -> HostFragmentation:
    supply = hosts.states[number].supply
    rows = hosts.rows[number, : len(supply.gpus)]
    free = np.array([memory_mib(gpu) for gpu in supply.gpus]) * mix.free[rows] / 1000.0
    open_to = mix.open_to(hosts.cpu[number], hosts.memory[number])
    held = mix.room[rows].sum(axis=0) >= mix.need
    useful = (mix.useful[rows] > 0) & held & (open_to > 0)
    return HostFragmentation(
        host=supply.name,
        free_mib=float(free.sum()),
        unusable_mib=float(free[~useful.any(axis=1)].sum()),
        expected_mib=float(free.sum() - (free[:, None] * useful * mix.weight).sum()),
    )


def memory_mib(gpu: GpuSupply) -> int:
    """A GPU's memory as its offers tell it."""
    wholes = [offer.memory_mib for offer in gpu.offers if whole(offer)]
    parts = [offer.memory_mib * gpu.units // offer.units for offer in gpu.offers if offer.units]
    return max(wholes or parts, default=0)
