"""What-if suggestions: the cheapest changes that make a refused request fit, each tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from vgpumgr.model.formats import format_mib
from vgpumgr.model.placement import Change, Placed
from vgpumgr.model.supply import Fleet, HostSupply
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement.fit.host_fit import commit, find_fit
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.profile_stand_ins import nearest, others
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.resources.host_state import FleetState, HostState


class ChangeKind(StrEnum):
    """What is changed, the cheapest first: what costs its owner least, then whom it troubles."""

    FRAMEWORK = "framework"
    MODEL = "model"
    NUMA = "numa"
    PINNING = "pinning"
    HUGEPAGES = "hugepages"
    UNCORDON = "uncordon"
    AFFINITY = "affinity"
    PROFILE = "profile"
    LAYOUT = "layout"
    MOVE = "move"
    COUNT = "count"
    SMALLER = "smaller-gpu-part"
    VCPUS = "vcpus"
    MEMORY = "memory"
    STOP = "stop"
    HOST = "host"


RANK = {kind: number for number, kind in enumerate(ChangeKind)}
WISHES = frozenset(
    {
        ChangeKind.FRAMEWORK,
        ChangeKind.MODEL,
        ChangeKind.NUMA,
        ChangeKind.PINNING,
        ChangeKind.HUGEPAGES,
        ChangeKind.AFFINITY,
    }
)
"""What a request would rather have than need: without it the VM gets all that it asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """``host`` as it would be: in place of the one of that name, or one more, without a name.

    ``text`` says what is changed, ``next()`` what to type or write for it. ``stopped`` is the VM
    that no longer holds anything there, where that is the change.
    """

    kind: ChangeKind
    text: str
    host: HostSupply
    next: Callable[[], str] = str
    stopped: VmSpec | None = None


@dataclass(frozen=True, slots=True)
class Easier:
    """A request that differs from the one asked about as ``text`` says."""

    kind: ChangeKind
    text: str
    request: VmSpec


def easier(request: VmSpec, fleet: Fleet) -> Iterator[Easier]:
    """All of them, those of one kind the nearest to the request first."""
    yield from _any_framework(request)
    yield from _other_models(request, fleet)
    yield from _plainer(request)
    yield from _other_profiles(request, fleet)
    yield from _anywhere(request)
    yield from _fewer_parts(request)
    yield from _less_of_the_host(request, fleet)


def _any_framework(request: VmSpec) -> Iterator[Easier]:
    named = sorted({part.framework for part in request.gpus if part.framework} - {"any"})
    if named:
        gpus = tuple(replace(part, framework=None) for part in request.gpus)
        text = f"without framework: {', '.join(named)}"
        yield Easier(ChangeKind.FRAMEWORK, text, replace(request, gpus=gpus))


def _other_models(request: VmSpec, fleet: Fleet) -> Iterator[Easier]:
    """One board in place of those that parts name, in all parts that ask for the same."""
    for part in dict.fromkeys(request.gpus):
        for other in others(part, fleet):
            gpus = tuple(_instead(each, part, other.part) for each in request.gpus)
            kind = ChangeKind.SMALLER if other.smaller else ChangeKind.MODEL
            yield Easier(kind, other.text, replace(request, gpus=gpus))


def _plainer(request: VmSpec) -> Iterator[Easier]:
    if request.numa is NumaPolicy.REQUIRE:
        relaxed = replace(request, numa=NumaPolicy.PREFER)
        yield Easier(ChangeKind.NUMA, "with numa: prefer instead of require", relaxed)
    if request.pin_cpus:
        yield Easier(ChangeKind.PINNING, "without pin_cpus", replace(request, pin_cpus=False))
    if request.hugepage_kib is not None:
        text = f"without hugepages: {format_mib(request.hugepage_kib // 1024)}"
        yield Easier(ChangeKind.HUGEPAGES, text, replace(request, hugepage_kib=None))


def _other_profiles(request: VmSpec, fleet: Fleet) -> Iterator[Easier]:
    """One profile, or size, in place of another, in all parts that ask for it."""
    for part in dict.fromkeys(request.gpus):
        for other in nearest(part, fleet):
            gpus = tuple(_instead(each, part, other.part) for each in request.gpus)
            kind = ChangeKind.SMALLER if other.smaller else ChangeKind.PROFILE
            yield Easier(kind, other.text, replace(request, gpus=gpus))


def _instead(each: GpuRequest, old: GpuRequest, new: GpuRequest) -> GpuRequest:
    return new if each == old else each


def _anywhere(request: VmSpec) -> Iterator[Easier]:
    affinity = request.affinity
    if affinity.hosts:
        text = f"without affinity.hosts: {', '.join(affinity.hosts)}"
        freed = replace(affinity, hosts=())
        yield Easier(ChangeKind.AFFINITY, text, replace(request, affinity=freed))
    for clause, labels, freed in (
        ("host_labels", affinity.host_labels, replace(affinity, host_labels={})),
        ("together_with", affinity.together_with, replace(affinity, together_with={})),
        ("apart_from", affinity.apart_from, replace(affinity, apart_from={})),
    ):
        if labels:
            pairs = ", ".join(f"{key}: {value}" for key, value in labels.items())
            text = f"without affinity.{clause}: {{{pairs}}}"
            yield Easier(ChangeKind.AFFINITY, text, replace(request, affinity=freed))


def _fewer_parts(request: VmSpec) -> Iterator[Easier]:
    for part in dict.fromkeys(request.gpus):
        for count in range(part.count - 1, 0, -1):
            gpus = tuple(_instead(each, part, replace(part, count=count)) for each in request.gpus)
            what = part.profile or format_mib(part.memory_mib or 0)
            text = f"with {count} × {what} instead of {part.count}"
            yield Easier(ChangeKind.COUNT, text, replace(request, gpus=gpus))


def _less_of_the_host(request: VmSpec, fleet: Fleet) -> Iterator[Easier]:
    """Only what some host has free can help: the most of it first."""
    vcpus = {host.free_vcpus for host in fleet.hosts}
    if request.pin_cpus:
        vcpus |= {sum(len(node.free_cpus) for node in host.numa) for host in fleet.hosts}
        vcpus |= {len(node.free_cpus) for host in fleet.hosts for node in host.numa}
    for count in _below(request.vcpus, vcpus):
        text = f"with vcpus: {count} instead of {request.vcpus}"
        yield Easier(ChangeKind.VCPUS, text, replace(request, vcpus=count))
    if request.hugepage_kib is None:
        free = {host.free_memory_mib for host in fleet.hosts}
        for mib in _below(request.memory_mib, {each // 1024 * 1024 for each in free}):
            text = f"with memory: {format_mib(mib)} instead of {format_mib(request.memory_mib)}"
            yield Easier(ChangeKind.MEMORY, text, replace(request, memory_mib=mib))


def _below(asked: int, free: Iterable[int]) -> list[int]:
    return sorted((each for each in free if 0 < each < asked), reverse=True)


Ways = Callable[[], Iterable[Iterable[Alternative]]]

_POLICY = PlacementPolicy.BREADTH_FIRST
"""Whether something fits does not depend on it."""


def suggest(
    fleet: Fleet,
    request: VmSpec,
    ways: Ways = tuple,
    *,
    taken: Sequence[Placed] = (),
) -> tuple[Change, ...]:
    """One change of each kind that alone makes ``request`` fit, the cheapest first.

    Tried are requests that ask for less, on the fleet as it is, and the request itself on the
    hosts of ``ways``: alternatives of one kind each, the cheapest first, asked for as long as they
    are needed. A VM that would have to stop may also move to where it fits now. Where none of that
    helps, each way is tried with one wish less. ``taken`` is decided on this fleet already, and
    stays as it is.
    """
    found: dict[str, Change] = {}
    trial = _Trial(fleet, taken)
    alone = (trial.of(request, way) for way in ways())
    for change in chain(_asking_less(fleet, request, taken), *alone):
        found.setdefault(change.kind, change)
    if not found:
        found = {each.kind: each for each in _with_one_wish_less(trial, fleet, request, ways)}
    return tuple(sorted(found.values(), key=lambda change: RANK[ChangeKind(change.kind)]))


def _asking_less(fleet: Fleet, request: VmSpec, taken: Sequence[Placed]) -> Iterator[Change]:
    placer = Placer(fleet, _POLICY)
    for placed in taken:
        placer.commit(placed)
    done: set[ChangeKind] = set()
    for each in easier(request, fleet):
        if each.kind in done:
            continue
        relaxed = replace(each.request, policy=_POLICY)
        decision = placer.decide(relaxed, explain=False)
        if isinstance(decision, Placed):
            done.add(each.kind)
            yield Change(kind=each.kind, text=each.text, host=decision.host)


def _with_one_wish_less(
    trial: _Trial, fleet: Fleet, request: VmSpec, ways: Ways
) -> Iterator[Change]:
    """The first way that helps together with the cheapest wish to give up."""
    for each in easier(request, fleet):
        if each.kind in WISHES:
            for change in chain(*(trial.of(each.request, way) for way in ways())):
                yield replace(change, text=f"{each.text} and {change.text}")
                return


class _Trial:
    """Requests on hosts that would be otherwise."""

    def __init__(self, fleet: Fleet, taken: Sequence[Placed]) -> None:
        self._state = FleetState(fleet)
        hosts = {host.name: host for host in self._state.hosts}
        for placed in taken:
            demand = self._digest(placed.request)
            commit(self._state, hosts[placed.host], placed, demand)
        self._closed = {placed.host for placed in taken}

    def of(self, request: VmSpec, way: Iterable[Alternative]) -> Iterator[Change]:
        """The first that helps; of VMs that would stop also the first that can move instead."""
        demand = self._digest(request)
        for each in way:
            if not self._fits(each, demand):
                continue
            yield Change(kind=each.kind, text=each.text, host=each.host.name, next=each.next())
            if each.stopped is None:
                return
            if home := self._home(each.stopped, each.host.name):
                yield _moved(each.stopped.name, each.host.name, home)
                return

    def _fits(self, each: Alternative, demand: Demand) -> bool:
        """Not tried on a host that takes others: whether these still fit there would be open."""
        if each.host.name in self._closed:
            return False
        host = HostState(each.host, 0, self._state.boards)
        return find_fit(host, demand) is not None

    def _home(self, vm: VmSpec, but: str) -> str:
        """Another host that takes the VM while it still holds its place."""
        demand = self._digest(vm)
        others = (host for host in self._state.hosts if host.name != but)
        return next((host.name for host in others if find_fit(host, demand)), "")

    def _digest(self, request: VmSpec) -> Demand:
        return self._state.digest(replace(request, policy=_POLICY), _POLICY)


def _moved(vm: str, source: str, target: str) -> Change:
    return Change(
        kind=ChangeKind.MOVE,
        text=f"with VM {vm} moved to {target}",
        host=source,
        next=f"vgpumgr vm migrate {vm} --to {target}",
    )
