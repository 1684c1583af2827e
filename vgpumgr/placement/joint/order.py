"""An order while windows of it are decided anew: which VMs have a place, and who may be moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from vgpumgr.model.placement import Decision, Fleet, HostSupply, Placed
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.demand import matches, selector

MOST_HOSTS = 256
"""That an order may be spread over: those it lies on first, then those with the most GPU free."""


class Order:
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
    """Positions of requests that ask for no company, nor against any, and are nobody's."""
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
