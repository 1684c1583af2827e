"""A fleet on which moves are tried and undone, and the places where a moved VM may go."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.defrag import MoveRoute, Resident
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.supply import Fleet, Offer
from vgpumgr.model.vm import NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement.fit.host_fit import (
    commit,
    fit_on,
    gpus_near,
    nodes_to_try,
    proposal,
    release,
)
from vgpumgr.placement.fit.host_rules import refuse_host
from vgpumgr.placement.fit.policy_keys import KEYS, Key, Keys
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.resources.gpu_slots import Spot, mask_of
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.resources.host_state import FleetState, HostState
from vgpumgr.placement.tables.gpu_states import Part, StateTable

DEPTH = PlacementPolicy.DEPTH_FIRST

_USED_MIB = 1 << 30
"""What a move weighs more that concerns a user at work: more than all disks of a host."""


class MovableFleet:
    """Hosts and GPUs by number, in the fleet's order; residents by number, in the order given.

    ``fleet`` is the supply without the residents. ``at[r]`` is where a resident is, None while it
    is taken off; ``on[g]`` are the residents that were on a GPU at first. ``gpu_order`` orders GPUs
    for a column (one part of some kind), the tightest first, inf without room; ``free`` has the
    vCPUs and MiB that hosts have left, ``mib[r]`` what a resident's dearest move carries, and much
    more where a user is at work on it. Changes can be undone: ``mark`` and ``back_to``.
    """

    def __init__(self, fleet: Fleet, residents: Sequence[Resident]) -> None:
        self.residents = residents
        self.state = FleetState(fleet)
        self.hosts: list[HostState] = self.state.hosts
        self.gpus: list[GpuOccupancy] = [gpu for host in self.hosts for gpu in host.gpus]
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
        self._reach: dict[int, NDArray[np.bool_]] = {}  # by the ways, which many residents share
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
        """The column of a VM with one part; None where only the exact fit tells."""
        return self._table.column(Part(demand.kinds[0], demand)) if demand.parts == 1 else None

    def gpu_order(self, column: int) -> NDArray[np.float64]:
        """How well one part fits every GPU: lower is tighter, inf without room."""
        # Most of what is tried is undone before anybody asks.
        for gpu in self._changed:
            self._rows[gpu] = self._table.row_of(self.gpus[gpu])
        self._table.open_rows(dict.fromkeys(self._rows[gpu].item() for gpu in self._changed))
        self._changed.clear()
        found: NDArray[np.float64] = self._table.keys_by(DEPTH)[self._rows, column]
        return found

    def reach(self, number: int) -> NDArray[np.bool_]:
        """The other hosts, by number, that a resident has a way to; not to be changed."""
        ways = self.residents[number].ways
        found = self._reach.get(id(ways))
        if found is None:
            found = self._reach[id(ways)] = np.array([h.name in ways for h in self.hosts], bool)
        return found

    def units(self, number: int) -> int:
        """Slots of GPUs that a resident takes."""
        return sum(len(part.slots) for part in self.residents[number].placed.assignments)

    def largest_first(self, number: int) -> tuple[float, ...]:
        """The order in which residents are placed: small ones find room more easily, so they come
        last.
        """
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
        """Take a resident off its host; what it held."""
        placed = self.at[number]
        assert placed is not None
        self._do(number, placed, comes=False)
        return placed

    def put(self, placed: Placed, number: int | None = None) -> None:
        """Put a resident that was taken off, or a new VM, where there is a place for it."""
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
        """The place with GPU instances made by the first VM in each, where several may share it."""
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
        """Put every resident where it is, those first that made the GPU instances of others."""

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
    kinds: dict[int, frozenset[MoveRoute]] = {}  # of ways, which many residents share
    for each in residents:
        if id(each.ways) not in kinds:
            kinds[id(each.ways)] = frozenset(each.ways.values())
    return [_dearest(each, kinds[id(each.ways)]) for each in residents]


def _dearest(resident: Resident, ways: frozenset[MoveRoute]) -> int:
    used = _USED_MIB if resident.user else 0
    every = ways if resident.within is None else ways | {resident.within}
    return max(map(resident.mib, every), default=0) + used


TIGHT = KEYS[DEPTH]


def fit_among(
    trial: MovableFleet, request: VmSpec, gpus: Collection[int], keys: Keys = TIGHT
) -> Placed | None:
    """The best place on these GPUs, all of one host; None where a rule refuses it."""
    return _fit_among(trial, request, trial.digest(request), gpus, keys)


def same_place(trial: MovableFleet, wanted: Placed) -> Placed | None:
    """That place again, if it is free: any slots of the GPU where slots are merely counted."""
    there = {(part.gpu, part.start) for part in wanted.assignments}

    def elsewhere(gpu: GpuOccupancy, _offer: Offer, spot: Spot) -> Key:
        return ((gpu.supply.id, spot.at) not in there,)

    keys = Keys(elsewhere, lambda _host: (), places=True)
    found = fit_among(trial, wanted.request, trial.gpus_of(wanted), keys)
    if found is None or {(part.gpu, part.start) for part in found.assignments} != there:
        return None
    return found


def reseat(fleet: Fleet, wanted: Placed) -> Placed | None:
    """The same place on a supply on which the VM holds nothing yet."""
    return same_place(MovableFleet(fleet, ()), wanted)


class MoveTargets:
    """Places on other GPUs for residents. ``closed[g]``: the GPU takes no resident.

    ``tries`` counts the places that were tried: the measure of effort.
    """

    def __init__(self, trial: MovableFleet) -> None:
        self.closed = np.zeros(len(trial.gpus), bool)
        self.tries = 0
        self._trial = trial

    def of(self, number: int) -> Iterator[Placed]:
        """Places for a resident where its ways lead, the tightest first; none on a GPU that it is
        on.
        """
        trial = self._trial
        request = trial.residents[number].placed.request
        together = request.affinity.together_with
        demand = trial.digest(request) if together else trial.demands[number]
        for gpus in self._candidates(number, demand):
            self.tries += 1
            found = _fit_among(trial, request, demand, gpus, TIGHT)
            if found is not None:
                yield found

    def _candidates(self, number: int, demand: Demand) -> Iterator[Sequence[int]]:
        trial, column = self._trial, self._trial.columns[number]
        reach = self._hosts(number, demand)
        closed = self.closed.copy()
        closed[list(trial.gpus_of(trial.residents[number].placed))] = True
        if column is None:
            for host in np.flatnonzero(reach).tolist():
                yield np.flatnonzero((trial.host_of == host) & ~closed).tolist()
            return
        lead = trial.gpu_order(column)
        lead[closed | ~reach[trial.host_of]] = np.inf
        most = int(np.isfinite(lead).sum())
        if most:
            # Mostly the first one will do.
            yield (int(lead.argmin()),)
            yield from ((gpu,) for gpu in np.argsort(lead, kind="stable")[1:most].tolist())

    def _hosts(self, number: int, demand: Demand) -> NDArray[np.bool_]:
        trial, resident = self._trial, self._trial.residents[number]
        found = trial.reach(number).copy()
        found[trial.numbers[resident.placed.host]] = resident.within is not None
        found &= trial.free[:, 0] >= demand.vcpus
        found &= trial.free[:, 1] >= demand.memory_mib
        return found


def _fit_among(
    trial: MovableFleet, request: VmSpec, demand: Demand, gpus: Collection[int], keys: Keys
) -> Placed | None:
    chosen = [trial.gpus[gpu] for gpu in gpus]
    if not chosen:
        return None
    host = trial.host(chosen[0].host)
    if refuse_host(host, demand) is not None:
        return None
    fits = []
    for node in nodes_to_try(host, demand):
        near = {id(gpu) for gpu in gpus_near(host, demand, node)}
        only = [gpu for gpu in chosen if id(gpu) in near]
        fits += [fit] if (fit := fit_on(host, demand, node, keys, only)) else []
    if not fits and demand.numa is not NumaPolicy.REQUIRE:
        fits += [fit] if (fit := fit_on(host, demand, None, keys, chosen)) else []
    return proposal(min(fits, key=lambda fit: fit.score), request, demand) if fits else None
