"""Preemption: the spot VMs to stop for a request that fits nowhere, by least work lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueRules, RunningVm
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.queue.queue_accounts import ScratchFleet
from vgpumgr.placement.queue.tenant_shares import amount_of

_TRIES = 2000
"""Sets tried per host; beyond that the best so far is taken."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """With ``victims`` gone the VM fits as ``placed`` says; ``cost`` in GiB x seconds."""

    placed: Placed
    victims: tuple[str, ...]
    cost: float


def work_lost(each: RunningVm, now: float, rules: QueueRules) -> float:
    """GiB x seconds: what it did so far and the restart, times its memory and GPU memory."""
    mib = amount_of(each.placed).gpu_memory_mib + each.vm.memory_mib
    return mib / 1024 * (max(now - each.since, 0.0) + rules.restart_s)


def least_evicted(
    ground: ScratchFleet,
    vm: VmSpec,
    victims: Collection[RunningVm],
    cost: Callable[[RunningVm], float],
    barred: Collection[str] = (),
) -> Eviction | None:
    """The cheapest set of ``victims`` of one host with which gone ``vm`` fits there, or None.

    Nobody is stopped on ``barred`` hosts. Exact up to 2,000 sets per host.
    """
    by_host: dict[str, list[tuple[float, str]]] = {}
    for each in victims:
        if each.placed.host not in barred:
            by_host.setdefault(each.placed.host, []).append((cost(each), each.vm.name))
    best: Eviction | None = None
    for host, found in sorted(by_host.items()):
        search = _VictimSearch(ground, vm, host, sorted(found, reverse=True), best)
        best = search.run()
    return best


class _VictimSearch:
    """Branch and bound on one host: the dearest are spared first."""

    def __init__(
        self,
        ground: ScratchFleet,
        vm: VmSpec,
        host: str,
        dearest_first: Sequence[tuple[float, str]],
        best: Eviction | None,
    ) -> None:
        self._ground, self._vm, self._host = ground, vm, host
        self._all, self._best = dearest_first, best
        self._left = _TRIES

    def run(self) -> Eviction | None:
        """The best so far, or a better one from this host."""
        names = [name for _, name in self._all]
        if self._ground.fit((self._vm,), self._host, names) is not None:
            self._try(0, [], 0.0)
        return self._best

    def _try(self, number: int, gone: list[str], cost: float) -> None:
        """``gone`` are doomed of the first ``number``; with them and all later ones it fits."""
        if self._best is not None and cost >= self._best.cost:
            return
        if number == len(self._all):
            found = self._ground.fit((self._vm,), self._host, gone)
            assert found is not None
            self._best = Eviction(found[0], tuple(sorted(gone)), cost)
            return
        price, name = self._all[number]
        later = [each for _, each in self._all[number + 1 :]]
        if self._left > 0:
            self._left -= 1
            if self._ground.fit((self._vm,), self._host, [*gone, *later]) is not None:
                self._try(number + 1, gone, cost)
        self._try(number + 1, [*gone, name], cost + price)
