"""Large neighbourhood search: more VMs of an order placed by deciding some again, together.

The solver's answer for a neighbourhood is carried out by the exact fit, on the GPUs that the
answer names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from vgpumgr.model.placement import Decision, Placed
from vgpumgr.model.supply import Fleet, HostSupply
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.batch.batch_problem import NOTHING_BETTER, BatchAnswer, Seat, Solve, Solver
from vgpumgr.placement.batch.neighbourhood import Neighbourhood
from vgpumgr.placement.fit.host_fit import commit, find_fit, proposal
from vgpumgr.placement.fit.policy_keys import KEYS
from vgpumgr.placement.resources.demand import Demand, matches, selector
from vgpumgr.placement.resources.gpu_state import GpuOccupancy
from vgpumgr.placement.resources.host_state import HostState

MOST_HOSTS = 256
"""That an order may be spread over: those it lies on first, then those with the most GPU free."""


class BatchOrder:
    """``placed`` by position, in an order in which they may be committed one after the other."""

    def __init__(
        self, fleet: Fleet, requests: Sequence[VmSpec], decisions: Mapping[int, Decision]
    ) -> None:
        self.placed = {n: each for n, each in decisions.items() if isinstance(each, Placed)}
        self._requests = requests
        self._free = _free(requests)
        self._hosts = self._choice(fleet)

    @property
    def waiting(self) -> list[int]:
        """VMs without a place that may be given one."""
        return [number for number in self._free if number not in self.placed]

    def windows(self, vms: int) -> Iterator[tuple[HostSupply, ...]]:
        """Hosts to decide together, with some so many VMs: each once, by a chance that is always
        the same.
        """
        size = self._size(vms)
        order = np.random.default_rng(vms).permutation(len(self._hosts)).tolist()
        for first in range(0, len(order), size):
            yield tuple(self._hosts[number] for number in sorted(order[first : first + size]))

    def has_only(self, hosts: Collection[HostSupply]) -> bool:
        """Whether these are all of its hosts."""
        return len(hosts) == len(self._hosts)

    def members(self, hosts: Collection[HostSupply]) -> dict[int, VmSpec]:
        """VMs that may be decided anew with these hosts: those on them, and the waiting ones."""
        names = {host.name for host in hosts}
        return {
            number: self._requests[number]
            for number in self._free
            if number not in self.placed or self.placed[number].host in names
        }

    def take(self, members: Collection[int], found: Mapping[int, Placed]) -> None:
        """Go by other places for these VMs."""
        self.placed = {n: each for n, each in self.placed.items() if n not in members}
        self.placed |= found

    def _choice(self, fleet: Fleet) -> list[HostSupply]:
        """Hosts that have nothing of the order that has to stay."""
        on = Counter(each.host for each in self.placed.values())
        free = set(self._free)
        fixed = {each.host for number, each in self.placed.items() if number not in free}
        hosts = [host for host in fleet.hosts if not host.blocked and host.name not in fixed]
        best = sorted(hosts, key=lambda host: (not on[host.name], -_free_gpus(host)))
        chosen = {host.name for host in best[:MOST_HOSTS]}
        return [host for host in hosts if host.name in chosen]

    def _size(self, vms: int) -> int:
        """Hosts of a window."""
        per_host = len(self.placed) / max(1, len(self._hosts))
        room = vms - min(len(self.waiting), vms // 2)
        return max(2, int(room / max(per_host, 1)))


def _free(requests: Sequence[VmSpec]) -> list[int]:
    """Positions of requests without affinity, and whose labels no affinity of another asks for."""
    wishes = [
        selector(wish)
        for request in requests
        for wish in (request.affinity.together_with, request.affinity.apart_from)
        if wish
    ]
    return [
        number
        for number, request in enumerate(requests)
        if not request.affinity.together_with
        and not request.affinity.apart_from
        and not any(matches(wish, request.labels) for wish in wishes)
    ]


def _free_gpus(host: HostSupply) -> float:
    return sum(len(gpu.free_slots) / max(1, gpu.units) for gpu in host.gpus if not gpu.blocked)


_TIGHT = KEYS[PlacementPolicy.DEPTH_FIRST]


def seated(window: Neighbourhood, answer: BatchAnswer) -> dict[int, Placed]:
    """Places for VMs of the window, all at once; uses up its supply.

    What the solver does not know of (NUMA nodes, pinned CPUs, vGPUs of one VM that must be alike)
    may keep VMs off where it put them: they, and those it left out, take what is left anywhere.
    """
    seating = _Seating(window)
    for host, held, seats in zip(window.state.hosts, answer.held, answer.seats, strict=True):
        seating.on(host, Counter(dict(held)), list(seats))
    for host in window.state.hosts:
        seating.rest(host)
    return seating.found


class _Seating:
    """``found`` by key. ``left`` counts VMs by group that are still to come on a host."""

    def __init__(self, window: Neighbourhood) -> None:
        self.found: dict[int, Placed] = {}
        self._window = window
        self._waiting = [list(members) for members in window.members]

    def on(self, host: HostState, left: Counter[int], seats: list[Seat]) -> None:
        """VMs that the answer puts on this host, in its seats, or else anywhere on it."""
        self._several(host, left, seats)
        self._single(host, left, seats)
        self._anywhere(host, left)

    def rest(self, host: HostState) -> None:
        """VMs without a place, as many as the host takes."""
        self._anywhere(host, Counter({g: len(keys) for g, keys in enumerate(self._waiting)}))

    def _several(self, host: HostState, left: Counter[int], seats: list[Seat]) -> None:
        """VMs of several parts first: they have the fewest choices. Their seats are gone then."""
        for group in self._largest_first(left):
            if self._window.demands[group].parts > 1:
                needs = self._window.needs[group]
                for _ in range(left[group]):
                    claimed = [gpu for need in needs for gpu in _claim(seats, *need)]
                    self._sit(host, group, left, claimed)

    def _single(self, host: HostState, left: Counter[int], seats: Sequence[Seat]) -> None:
        """VMs of one part, in the order in which the GPU is to be filled."""
        by_column: dict[int, list[int]] = {}
        for group in left:
            if self._window.demands[group].parts == 1:
                ((column, _),) = self._window.needs[group]
                by_column.setdefault(column, []).append(group)
        for gpu, column in seats:
            for group in [each for each in by_column.get(column, ()) if left[each] > 0][:1]:
                self._sit(host, group, left, [gpu])

    def _anywhere(self, host: HostState, left: Counter[int]) -> None:
        for group in self._largest_first(left):
            while left[group] > 0 and self._sit(host, group, left):
                pass

    def _largest_first(self, groups: Iterable[int]) -> list[int]:
        return sorted(groups, key=lambda group: -self._window.demands[group].parts)

    def _sit(
        self, host: HostState, group: int, left: Counter[int], gpus: Sequence[int] | None = None
    ) -> bool:
        """Whether one VM of the group may be there, on these GPUs (any); then it is."""
        if not self._waiting[group]:
            return False
        key = self._waiting[group][0]
        only = None if gpus is None else [host.gpus[gpu] for gpu in sorted(set(gpus))]
        placed = self._placed(host, self._window.requests[key], self._window.demands[group], only)
        if placed is None:
            return False
        left[group] -= 1
        self.found[self._waiting[group].pop(0)] = placed
        return True

    def _placed(
        self, host: HostState, request: VmSpec, demand: Demand, only: list[GpuOccupancy] | None
    ) -> Placed | None:
        fit = find_fit(host, demand, _TIGHT, only=only)
        if fit is None:
            return None
        placed = proposal(fit, request, demand)
        commit(self._window.state, host, placed, demand)
        return placed


def _claim(free: list[Seat], column: int, count: int) -> list[int]:
    """Take the GPUs of seats for so many parts off the list of free seats."""
    found = [seat for seat in free if seat[1] == column][:count]
    for seat in found:
        free.remove(seat)
    return [gpu for gpu, _ in found]


EFFORT = 6.0
"""For all windows of an order, in seconds of a machine that is always as fast."""

ROUNDS = ((32, 0.3), (64, 0.6), (128, 2.0))
"""VMs decided together, and the effort for one window, if it is not the whole order: small windows
are settled at once or not at all, large ones find what small ones cannot."""

PATIENCE = 5.0
"""So many times as long may it take by the clock."""


def improved(
    fleet: Fleet, requests: Sequence[VmSpec], decisions: Mapping[int, Decision], solver: Solver
) -> dict[int, Placed]:
    """Where VMs of an order go, by position: more of them than ``decisions`` place, or the same.

    VMs of the order that share a window of hosts may go on any host of the window, in place of any
    other, but never so that less GPU is taken than before. Left alone are VMs with affinity, VMs
    that others have affinity to, and hosts that have such VMs of the order. The result is in the
    order in which decisions were made.
    """
    order = BatchOrder(fleet, requests, decisions)
    if order.waiting:
        with solver() as solve:
            if solve is not None:
                _window_by_window(order, solve)
    return order.placed


def _window_by_window(order: BatchOrder, solve: Solve) -> None:
    left = EFFORT
    for vms, effort in ROUNDS:
        for hosts in order.windows(vms):
            if left <= 0 or not order.waiting:
                return
            whole = order.has_only(hosts)
            answer = _decided_anew(order, hosts, left if whole else min(left, effort), solve)
            if answer is None or whole:
                return
            left -= answer.effort


def _decided_anew(
    order: BatchOrder, hosts: tuple[HostSupply, ...], effort: float, solve: Solve
) -> BatchAnswer | None:
    """None: there is no use in going on."""
    members = order.members(hosts)
    there = {number for number in members if number in order.placed}
    window = Neighbourhood(Fleet(hosts=hosts), members)
    problem = window.problem(there, effort, PATIENCE * effort)
    if problem is None:
        return NOTHING_BETTER
    answer = solve(problem)
    if answer is not None and answer.held:
        found = seated(window, answer)
        if len(found) > len(there) and window.milli(found) >= problem.milli:
            order.take(members, found)
    return answer
