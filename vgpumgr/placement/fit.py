"""The best way to put one VM on one host: NUMA node and GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpumgr.model.placement import Offer
from vgpumgr.model.vm import NumaPolicy
from vgpumgr.placement.demand import Demand, Kind
from vgpumgr.placement.gpu_rules import refuse_gpu, room
from vgpumgr.placement.host_rules import refuse_host
from vgpumgr.placement.policy import SCORES, Key
from vgpumgr.placement.state import GpuState, HostState, NodeState

Score = tuple[int, tuple[Key, ...], Key]

SEARCH_STEPS = 2_000
"""Trials per host for a VM that mixes kinds of GPU parts. Requests of one kind need no search."""


@dataclass(frozen=True, slots=True)
class Pick:
    """One GPU part: the GPU, what it makes, and how good a choice it was."""

    gpu: GpuState
    kind: Kind
    offer: Offer
    key: Key


@dataclass(frozen=True, slots=True)
class Fit:
    """A VM on a host. ``score`` is comparable among fits of equal demands; lower is better."""

    host: HostState
    node: NodeState | None
    picks: tuple[Pick, ...]
    score: Score


def find_fit(host: HostState, demand: Demand) -> Fit | None:
    """The best fit on this host, or None.

    With ``prefer`` a placement on one NUMA node beats any other; the rest of the order is the
    policy's.
    """
    if refuse_host(host, demand) is not None:
        return None
    fits = [fit for node in nodes_to_try(host, demand) if (fit := fit_on(host, demand, node))]
    if fits:
        return min(fits, key=lambda fit: fit.score)
    return None if demand.numa is NumaPolicy.REQUIRE else fit_on(host, demand, None)


def nodes_to_try(host: HostState, demand: Demand) -> list[NodeState]:
    """NUMA nodes the VM may be bound to. ``prefer`` binds only what there is to be near to."""
    if demand.numa is NumaPolicy.NONE:
        return []
    if demand.numa is NumaPolicy.REQUIRE or demand.pin_cpus or demand.pages:
        return host.nodes
    near = {gpu.numa_node for gpu in host.gpus} if demand.kinds else set()
    return [node for node in host.nodes if node.id in near]


def fit_on(host: HostState, demand: Demand, node: NodeState | None) -> Fit | None:
    """The best fit with CPUs, memory and GPUs on ``node``; None lets them lie anywhere."""
    if node is not None and node_shortage(node, demand):
        return None
    picks = _pick(gpus_near(host, demand, node), demand)
    if picks is None:
        return None
    score = (
        _misses_node(demand, node, picks),
        tuple(pick.key for pick in picks),
        SCORES[demand.policy].host(host),
    )
    return Fit(host, node, picks, score)


def node_shortage(node: NodeState, demand: Demand) -> str:
    """What the node lacks, as words with numbers; empty when it has enough."""
    if demand.pin_cpus and len(node.cpus) < demand.vcpus:
        return f"{len(node.cpus)} free CPUs of {demand.vcpus} needed"
    if node.memory_mib < demand.memory_mib:
        return f"{node.memory_mib} MiB free of {demand.memory_mib} needed"
    pages = node.pages.get(demand.hugepage_kib, 0)
    if demand.pages > pages:
        return f"{pages} huge pages of {demand.hugepage_kib} KiB free of {demand.pages} needed"
    return ""


def gpus_near(host: HostState, demand: Demand, node: NodeState | None) -> list[GpuState]:
    """GPUs on ``node``. One whose node is unknown satisfies ``prefer`` but not ``require``."""
    if node is None:
        return host.gpus
    near = (node.id,) if demand.numa is NumaPolicy.REQUIRE else (node.id, None)
    return [gpu for gpu in host.gpus if gpu.numa_node in near]


def _misses_node(demand: Demand, node: NodeState | None, picks: tuple[Pick, ...]) -> int:
    if node is not None or demand.numa is NumaPolicy.NONE:
        return 0
    known = any(pick.gpu.numa_node is not None for pick in picks)
    return int(known or demand.pin_cpus or demand.pages > 0)


def _pick(gpus: Sequence[GpuState], demand: Demand) -> tuple[Pick, ...] | None:
    if len(demand.kinds) > 1 and not _each_kind_has_room(gpus, demand):
        return None
    parts = [kind for kind in demand.kinds for _ in range(kind.count)]
    return _Search(gpus, demand).run(parts)


def _each_kind_has_room(gpus: Sequence[GpuState], demand: Demand) -> bool:
    return all(sum(room(gpu, kind, demand) for gpu in gpus) >= kind.count for kind in demand.kinds)


class _Search:
    """Best choice first, with a bounded look back where kinds compete for GPUs."""

    def __init__(self, gpus: Sequence[GpuState], demand: Demand) -> None:
        self._gpus = gpus
        self._demand = demand
        self._key = SCORES[demand.policy].gpu
        self._steps = SEARCH_STEPS

    def run(self, parts: Sequence[Kind]) -> tuple[Pick, ...] | None:
        if not parts:
            return ()
        choices = self._choices(parts[0])
        if parts[0] == parts[-1]:
            # Parts of the last kind never take room from each other in a way that matters.
            choices = choices[:1]
        for pick in choices:
            self._steps -= 1
            if self._steps < 0:
                return None
            slots = pick.gpu.take(pick.offer)
            rest = self.run(parts[1:])
            pick.gpu.give_back(pick.offer, slots)
            if rest is not None:
                return (pick, *rest)
        return None

    def _choices(self, kind: Kind) -> list[Pick]:
        picks = []
        for gpu in self._gpus:
            if refuse_gpu(gpu, kind, self._demand) is None:
                offer = gpu.offers[kind.profile]
                picks.append(Pick(gpu, kind, offer, self._key(gpu, offer)))
        picks.sort(key=lambda pick: pick.key)
        return picks
