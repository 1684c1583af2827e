"""Headroom: how many more VMs like one fit, how many start now, and how many days room lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement.fit.gpu_rules import room
from vgpumgr.placement.fit.host_fit import commit, find_fit, gpus_near, proposal
from vgpumgr.placement.fit.host_rules import refuse_host
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.resources.demand import Demand, PartKind, matches
from vgpumgr.placement.resources.gpu_state import Family, GpuOccupancy
from vgpumgr.placement.resources.host_state import FleetState, HostState, NodeState


def headroom(
    fleet: Fleet,
    request: VmSpec,
    limit: int = 100_000,
    *,
    policy: PlacementPolicy = PlacementPolicy.BREADTH_FIRST,
) -> int:
    """How many copies of ``request`` ``place`` would accept one after the other, at most ``limit``.

    Hosts do not compete for copies of one request, so each is counted by itself. The policy
    matters only where copies have to be tried (a VM that mixes kinds of GPU parts, parts by size,
    NVSwitch partitions), and for where a new group starts.
    """
    state = FleetState(fleet)
    demand = state.digest(request, policy)
    total = 0
    if _weighed(state, request, demand, policy):
        return _by_placing(Placer(fleet, policy), request, limit)
    if demand.founding:
        founder = Placer(fleet, policy).decide(request, explain=False)
        if not isinstance(founder, Placed):
            return 0
        host = next(host for host in state.hosts if host.name == founder.host)
        commit(state, host, founder, demand)
        demand = state.digest(request, policy)
        total = 1
    for host in state.hosts:
        if total >= limit:
            break
        total += _on_host(state, host, request, demand, limit - total)
    return min(total, limit)


def _weighed(state: FleetState, request: VmSpec, demand: Demand, policy: PlacementPolicy) -> bool:
    """Whether copies have to be tried under a policy that weighs hosts against each other."""
    if (request.policy or policy) is not PlacementPolicy.CAPACITY_FIRST:
        return False
    return not all(_countable(host, demand) for host in state.hosts)


def _by_placing(placer: Placer, request: VmSpec, limit: int) -> int:
    """As ``place`` does it."""
    for count in range(limit):
        found = placer.decide(request, explain=False)
        if not isinstance(found, Placed):
            return count
        placer.commit(found)
    return limit


def counted(state: FleetState, request: VmSpec, demand: Demand, limit: int) -> int | None:
    """The same for a state that stays as it is; None where only trying tells."""
    if demand.founding:
        return None
    total = 0
    for host in state.hosts:
        if total >= limit:
            break
        if most := _allowed(host, request, demand, limit - total):
            if not _countable(host, demand):
                return None
            total += min(most, _by_counting(host, demand, most))
    return total


def _on_host(
    state: FleetState, host: HostState, request: VmSpec, demand: Demand, limit: int
) -> int:
    most = _allowed(host, request, demand, limit)
    if most and not _countable(host, demand):
        return _by_trying(state, host, request, demand, most)
    return min(most, _by_counting(host, demand, most)) if most else 0


def _allowed(host: HostState, request: VmSpec, demand: Demand, limit: int) -> int:
    """At most so many, room apart."""
    if refuse_host(host, demand) is not None or not all(map(host.makers, demand.kinds)):
        return 0
    return min(limit, 1) if matches(demand.apart_from, request.labels) else limit


def _countable(host: HostState, demand: Demand) -> bool:
    """Whether what a GPU takes does not depend on the others, so that totals say how many fit."""
    if demand.sriov:
        return False
    if len(demand.kinds) != 1:
        return not demand.kinds
    kind = demand.kinds[0]
    if host.supply.partitions and (kind.whole or not kind.profile):
        return False
    return kind.count == 1 or _one_size(host, kind)


def _one_size(host: HostState, kind: PartKind) -> bool:
    """Whether all parts of a VM take the same, and which VMs may share with it is clear."""
    made = [(gpu, gpu.matching(kind)) for gpu in host.makers(kind)]
    families = {gpu.family(offers[0]) for gpu, offers in made}
    clear = len(families) == 1 or None not in families
    return clear and all(len(offers) == 1 for _, offers in made)


def _by_trying(
    state: FleetState, host: HostState, request: VmSpec, demand: Demand, limit: int
) -> int:
    """Kinds, sizes or partitions compete for GPUs: only placing them tells."""
    for count in range(limit):
        fit = find_fit(host, demand)
        if fit is None:
            return count
        commit(state, host, proposal(fit, request, demand), demand)
    return limit


def _by_counting(host: HostState, demand: Demand, limit: int) -> int:
    """VMs of one kind of GPU part, or of none: every total is used up evenly."""
    most = most_vms(host, demand, limit)
    if demand.numa is NumaPolicy.REQUIRE:
        return min(most, sum(_on_node(host, node, demand, limit) for node in host.nodes))
    return min(
        most,
        _times(host.free_cpus(), demand.vcpus if demand.pin_cpus else 0, limit),
        _times(host.free_pages(demand.hugepage_kib), demand.pages, limit),
        _on_gpus(host.gpus, demand, limit),
    )


def most_vms(host: HostState, demand: Demand, limit: int) -> int:
    """How many VMs vCPUs and memory are enough for, at most ``limit``."""
    return min(
        _times(host.free_vcpus, demand.vcpus, limit),
        _times(host.memory_mib, demand.memory_mib, limit),
    )


def _on_node(host: HostState, node: NodeState, demand: Demand, limit: int) -> int:
    return min(
        _times(len(node.cpus), demand.vcpus if demand.pin_cpus else 0, limit),
        _times(node.memory_mib, demand.memory_mib, limit),
        _times(node.pages.get(demand.hugepage_kib, 0), demand.pages, limit),
        _on_gpus(gpus_near(host, demand, node), demand, limit),
    )


def _on_gpus(gpus: Sequence[GpuOccupancy], demand: Demand, limit: int) -> int:
    if not demand.kinds:
        return limit
    kind = demand.kinds[0]
    rooms: dict[Family | None, int] = {}
    for gpu in gpus:
        if offers := gpu.matching(kind):
            family = gpu.family(offers[0]) if kind.count > 1 else None
            rooms[family] = rooms.get(family, 0) + room(gpu, kind, demand)
    return sum(count // kind.count for count in rooms.values())


def _times(have: int, need: int, limit: int) -> int:
    return max(have, 0) // need if need else limit


def startable(placer: Placer, request: VmSpec, limit: int) -> int:
    """How many copies of ``request`` the placer would take one after the other, at most ``limit``.

    Counted, or tried and given back where GPU parts compete; ``headroom`` asks it of a fleet.
    """
    demand = placer.state.digest(request, PlacementPolicy.DEPTH_FIRST)
    found = counted(placer.state, request, demand, limit)
    return _tried(placer, request, limit) if found is None else found


def _tried(placer: Placer, request: VmSpec, limit: int) -> int:
    tried: list[Placed] = []
    while len(tried) < limit:
        decision = placer.decide(request, explain=False)
        if not isinstance(decision, Placed):
            break
        placer.commit(decision)
        tried.append(decision)
    for placed in reversed(tried):
        placer.release(placed)
    return len(tried)


# Days of the past are drawn at random, in runs of a week so that weekends stay together, and strung
# into possible futures (a moving-block bootstrap): nothing is assumed of how growth is distributed,
# nor that it goes on in a line. The draw is always the same, so the answer is.


ENOUGH_DAYS = 14
"""Fewer days of history tell nothing: two of every weekday."""

HORIZON_DAYS = 365
_FUTURES, _RUN_DAYS, _SEED = 1_000, 7, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """Room is gone by ``days_50`` as likely as not, and lasts ``days_90`` nine times in ten.

    None: longer than a year. ``per_day`` is the mean change of the past.
    """

    per_day: float
    days_50: int | None
    days_90: int | None


class Futures:
    """What could become of a quantity that changed by ``changes`` on the days of the past.

    The oldest day first, at least ENOUGH_DAYS of them; else ValueError.
    """

    def __init__(self, changes: Sequence[float]) -> None:
        if len(changes) < ENOUGH_DAYS:
            raise ValueError(f"{len(changes)} days are too few")
        past = np.array(changes, np.float64)
        self._per_day = float(past.mean())
        self._peaks = _peaks(past)

    def lasting(self, room: float) -> Lasting:
        """How long until it has grown by more than ``room``."""
        if room < 0:
            return Lasting(per_day=self._per_day, days_50=0, days_90=0)
        gone = (self._peaks > room + 1e-9).sum(axis=0) / _FUTURES
        unsafe = _first(gone > 0.1)
        return Lasting(
            per_day=self._per_day,
            days_50=_first(gone >= 0.5),
            days_90=None if unsafe is None else unsafe - 1,
        )


def _peaks(past: NDArray[np.float64]) -> NDArray[np.float64]:
    """[futures × days] the most that it has grown by until then."""
    runs = -(-HORIZON_DAYS // _RUN_DAYS)
    starts = np.random.default_rng(_SEED).integers(0, len(past), (_FUTURES, runs))
    days = (starts[:, :, None] + np.arange(_RUN_DAYS)) % len(past)
    drawn = past[days.reshape(_FUTURES, -1)[:, :HORIZON_DAYS]]
    peaks: NDArray[np.float64] = np.maximum.accumulate(np.cumsum(drawn, axis=1), axis=1)
    return peaks


def _first(gone: NDArray[np.bool_]) -> int | None:
    """Days until it is so."""
    return int(np.argmax(gone)) + 1 if gone.any() else None
