"""From an answer to places: every VM by the exact fit, on the GPUs that the answer names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.demand import Demand
from vgpumgr.placement.fit import find_fit
from vgpumgr.placement.gpu_state import GpuState
from vgpumgr.placement.joint.problem import Answer, Seat
from vgpumgr.placement.joint.window import Window
from vgpumgr.placement.policy import KEYS
from vgpumgr.placement.state import HostState
from vgpumgr.placement.taking import commit, proposal

_TIGHT = KEYS[PlacementPolicy.DEPTH_FIRST]


def seated(window: Window, answer: Answer) -> dict[int, Placed]:
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

    def __init__(self, window: Window) -> None:
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
        self, host: HostState, request: VmSpec, demand: Demand, only: list[GpuState] | None
    ) -> Placed | None:
        fit = find_fit(host, demand, _TIGHT, only=only)
        if fit is None:
            return None
        placed = proposal(fit, request, demand)
        commit(self._window.state, host, placed, demand)
        return placed


def _claim(free: list[Seat], column: int, count: int) -> list[int]:
    """GPUs of seats for so many parts; they are free no more."""
    found = [seat for seat in free if seat[1] == column][:count]
    for seat in found:
        free.remove(seat)
    return [gpu for gpu, _ in found]
