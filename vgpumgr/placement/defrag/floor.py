"""A fleet with its VMs on it, on which moves are tried and undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.defrag import Resident, Way
from vgpumgr.model.placement import Assignment, Fleet, Placed
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.demand import Demand
from vgpumgr.placement.geometry import mask_of
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.state import FleetState, HostState
from vgpumgr.placement.table.parts import Part
from vgpumgr.placement.table.states import StateTable
from vgpumgr.placement.taking import commit, release

DEPTH = PlacementPolicy.DEPTH_FIRST

_USED_MIB = 1 << 30
"""What a move weighs more that concerns a user at work: more than all disks of a host."""


class Floor:
    """Hosts and GPUs by number, in the fleet's order; residents by number, in the order given.

    ``fleet`` is the supply without the residents. ``at[r]`` is where a resident is, None while it
    is lifted; ``on[g]`` are those that were on a GPU at first. ``leads`` orders GPUs for a column
    (one part of some kind), the tightest first, inf without room; ``free`` has the vCPUs and MiB
    that hosts have left, ``mib[r]`` what a resident's dearest move carries, and much
    more where a user is at work on it. What was done can be undone: ``mark`` and ``back_to``.
    """

    def __init__(self, fleet: Fleet, residents: Sequence[Resident]) -> None:
        self.residents = residents
        self.state = FleetState(fleet)
        self.hosts: list[HostState] = self.state.hosts
        self.gpus: list[GpuState] = [gpu for host in self.hosts for gpu in host.gpus]
        self.numbers = {host.name: number for number, host in enumerate(self.hosts)}
        self.host_of = np.repeat(np.arange(len(self.hosts)), [len(h.gpus) for h in self.hosts])
        self._index = {(gpu.host, gpu.supply.id): n for n, gpu in enumerate(self.gpus)}
        self._table = StateTable(self.state.boards)
        self.at: list[Placed | None] = [None] * len(residents)
        self.on: list[list[int]] = [[] for _ in self.gpus]
        self.bare_empty = [gpu.empty and not gpu.supply.blocked for gpu in self.gpus]
        self.demands = [self.digest(each.placed.request) for each in residents]
        self.columns = [self.column(demand) for demand in self.demands]
        self.mib = _most_mib(residents)
        self._undo: list[tuple[int | None, Placed, bool, Placed | None]] = []
        self._settle()
        self._rows = np.zeros(len(self.gpus), np.int64)
        self._changed = set(range(len(self.gpus)))
        self.free = np.array([_free(host) for host in self.hosts], np.int64).reshape(-1, 2)

    def host(self, name: str) -> HostState:
        """The host of that name."""
        return self.hosts[self.numbers[name]]

    def gpus_of(self, placed: Placed) -> tuple[int, ...]:
        """The GPUs, each once, that its parts are on."""
        found = (self._index[placed.host, part.gpu] for part in placed.assignments)
        return tuple(dict.fromkeys(found))

    def digest(self, request: VmSpec) -> Demand:
        """What the request needs, with the fleet as it is."""
        return self.state.digest(request, DEPTH)

    def column(self, demand: Demand) -> int | None:
        """Of a VM with one part; None where only the exact fit tells."""
        return self._table.column(Part(demand.kinds[0], demand)) if demand.parts == 1 else None

    def leads(self, column: int) -> NDArray[np.float64]:
        """How well one part fits every GPU: lower is tighter, inf without room."""
        # Most of what is tried is undone before anybody asks.
        for gpu in self._changed:
            self._rows[gpu] = self._table.row_of(self.gpus[gpu])
        self._table.open_rows(dict.fromkeys(self._rows[gpu].item() for gpu in self._changed))
        self._changed.clear()
        found: NDArray[np.float64] = self._table.lead[DEPTH][self._rows, column]
        return found

    def units(self, number: int) -> int:
        """Slots of GPUs that a resident takes."""
        return sum(len(part.slots) for part in self.residents[number].placed.assignments)

    def largest_first(self, number: int) -> tuple[float, ...]:
        """Who is seated before whom: it is easier to find room for the small ones."""
        return -self.units(number), -self.mib[number], number

    # --- what is done, and undone ---

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._undo)

    def back_to(self, mark: int) -> None:
        """As it was at ``mark``."""
        while len(self._undo) > mark:
            number, placed, came, before = self._undo.pop()
            self._apply(number, placed, comes=not came)
            if number is not None:
                self.at[number] = before

    def lift(self, number: int) -> Placed:
        """Take a resident off the floor; what it held."""
        placed = self.at[number]
        assert placed is not None
        self._do(number, placed, comes=False)
        return placed

    def put(self, placed: Placed, number: int | None = None) -> None:
        """Put a lifted resident, or somebody new, where there is a place for it."""
        self._do(number, placed, comes=True)

    def _do(self, number: int | None, placed: Placed, *, comes: bool) -> None:
        before = None if number is None else self.at[number]
        self._undo.append((number, placed, comes, before))
        self._apply(number, placed, comes=comes)
        if number is not None:
            self.at[number] = placed if comes else None

    def _apply(self, number: int | None, placed: Placed, *, comes: bool) -> None:
        host = self.host(placed.host)
        demand = self.digest(placed.request) if number is None else self.demands[number]
        if comes:
            commit(self.state, host, self._made(placed), demand)
        else:
            release(self.state, host, placed, demand)
        self._changed.update(self.gpus_of(placed))
        self.free[host.order] = _free(host)

    def _made(self, placed: Placed) -> Placed:
        """A GPU instance that several may share is made by whoever comes first."""
        made = (part.offer.instance for part in placed.assignments)
        if all(each is None or each.per_instance == 1 for each in made):
            return placed
        parts = tuple(self._part(placed.host, part) for part in placed.assignments)
        return replace(placed, assignments=parts)

    def _part(self, host: str, part: Assignment) -> Assignment:
        grid = self.gpus[self._index[host, part.gpu]].grid
        slots = mask_of(part.slots)
        there = any(each.offers(part.offer, slots, part.start) for each in grid.instances)
        return replace(part, make_instance=part.offer.instance is not None and not there)

    def _settle(self) -> None:
        """Everybody where they are, those first who made what others are in."""

        def makes(number: int) -> bool:
            return any(p.make_instance for p in self.residents[number].placed.assignments)

        for number in sorted(range(len(self.residents)), key=lambda n: not makes(n)):
            placed = self.residents[number].placed
            commit(self.state, self.host(placed.host), self._made(placed), self.demands[number])
            self.at[number] = placed
        for number, resident in enumerate(self.residents):
            for gpu in self.gpus_of(resident.placed):
                self.on[gpu].append(number)


def _free(host: HostState) -> tuple[int, int]:
    return host.free_vcpus, host.memory_mib


def _most_mib(residents: Sequence[Resident]) -> list[int]:
    """What the dearest move of each carries over."""
    kinds: dict[int, frozenset[Way]] = {}  # of ways, which many residents share
    for each in residents:
        if id(each.ways) not in kinds:
            kinds[id(each.ways)] = frozenset(each.ways.values())
    return [_dearest(each, kinds[id(each.ways)]) for each in residents]


def _dearest(resident: Resident, ways: frozenset[Way]) -> int:
    used = _USED_MIB if resident.user else 0
    every = ways if resident.within is None else ways | {resident.within}
    return max(map(resident.mib, every), default=0) + used
