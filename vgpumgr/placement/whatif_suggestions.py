"""What-if suggestions: the cheapest changes that make a refused request fit, each tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from vgpumgr import catalog
from vgpumgr.model.formats import format_mib
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.placement import Change, Placed
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, Offer
from vgpumgr.model.vm import GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement.fit.host_fit import commit, find_fit
from vgpumgr.placement.placer import Placer
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.resources.host_state import FleetState, HostState
from vgpumgr.placement.scores.fragmentation import memory_mib


class ChangeKind(StrEnum):
    """What is changed, the cheapest first: changes to the request before changes to other VMs."""

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

    Tried are requests that ask for less, on the fleet as it is, and the request itself on the hosts
    of ``ways``: alternatives of one kind each, the cheapest first, asked for as long as they are
    needed. A VM that would have to stop may also move to where it fits now. Where none of that
    helps, each way is tried with one requirement less. ``taken`` is decided on this fleet already,
    and stays as it is.
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
    """The first way that helps together with the cheapest requirement to give up."""
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


_LARGER = 1.125
"""A stand-in is at most so many times as large: more would waste the GPU that it lies on."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """Another part, and whether it is smaller than the one asked for."""

    part: GpuRequest
    smaller: bool
    text: str


def nearest(part: GpuRequest, fleet: Fleet) -> Iterator[StandIn]:
    """Stand-ins on the GPUs that the part allows, nearest in size first."""
    if part.profile:
        yield from _by_name(part, fleet)
    else:
        yield from _by_size(part, fleet)


def _by_name(part: GpuRequest, fleet: Fleet) -> Iterator[StandIn]:
    known = _offers(fleet)
    asked = _size_of(part.profile, known)
    if asked is None:
        return
    asked_mib, series = asked
    others = (
        each
        for each in known
        if part.profile not in (each.profile, *each.names)
        and each.profile != PASSTHROUGH_PROFILE
        and each.series == series
        and 0 < each.memory_mib <= _LARGER * asked_mib
    )
    for each in sorted(others, key=lambda each: _distance(each, asked_mib)):
        size = format_mib(each.memory_mib)
        yield StandIn(
            part=replace(part, profile=each.profile),
            smaller=each.memory_mib < asked_mib,
            text=f"with profile: {each.profile} ({size}) instead of {part.profile}",
        )


def _size_of(profile: str, known: Iterable[Offer]) -> tuple[int, str] | None:
    """Memory in MiB and series, by the fleet or else by the catalogue."""
    for offer in known:
        if profile in (offer.profile, *offer.names):
            return offer.memory_mib, offer.series
    for board in catalog.boards():
        whole = catalog.whole_instance_type(board, profile)
        for each in board.types:
            if each.profile == profile or each == whole:
                return each.fb_mib, each.series
    return None


def _by_size(part: GpuRequest, fleet: Fleet) -> Iterator[StandIn]:
    asked = part.memory_mib or 0
    sizes = {each.memory_mib for each in _offers(fleet) if 0 < each.memory_mib < asked}
    for mib in sorted(sizes, reverse=True):
        text = f"with memory: {format_mib(mib)} of GPU instead of {format_mib(asked)}"
        yield StandIn(part=replace(part, memory_mib=mib), smaller=True, text=text)


def _distance(offer: Offer, asked_mib: int) -> tuple[bool, int, str]:
    """As large before smaller; the nearest of each."""
    return offer.memory_mib < asked_mib, abs(offer.memory_mib - asked_mib), offer.profile


def _offers(fleet: Fleet) -> list[Offer]:
    """Once per profile, in the order of the fleet."""
    seen: dict[int, tuple[Offer, ...]] = {}
    for host in fleet.hosts:
        for gpu in host.gpus:
            seen.setdefault(id(gpu.offers), gpu.offers)
    found: dict[str, Offer] = {}
    for offers in seen.values():
        for offer in offers:
            found.setdefault(offer.profile, offer)
    return list(found.values())


_MIB_PER_GIB = 1024
_AS_LARGE = 0.9
"""Boards of one size differ a little in what is left of their memory."""


def others(part: GpuRequest, fleet: Fleet) -> Iterator[StandIn]:
    """Boards that make the part, or could with a layout: as large first, then the nearest."""
    named = {model.casefold() for model in part.any_of}
    if not named:
        return
    boards = {gpu.model: gpu for host in fleet.hosts for gpu in host.gpus}
    sizes = [size for model in part.any_of if (size := _size(model, boards))]
    asked = max(sizes, default=0)

    def far(gpu: GpuSupply) -> tuple[bool, int, str]:
        size = memory_mib(gpu)
        return size < _AS_LARGE * asked, abs(size - asked), gpu.model

    making = [
        gpu for gpu in boards.values() if _makes(gpu, part) and gpu.model.casefold() not in named
    ]
    for gpu in sorted(making, key=far):
        yield StandIn(
            part=replace(part, model=gpu.model, models=()),
            smaller=memory_mib(gpu) < _AS_LARGE * asked,
            text=f"with model: {gpu.model} instead of {', '.join(part.any_of)}",
        )


def _makes(gpu: GpuSupply, part: GpuRequest) -> bool:
    if not part.profile:
        return any(offer.memory_mib >= (part.memory_mib or 0) for offer in gpu.offers)
    offered = any(part.profile in (offer.profile, *offer.names) for offer in gpu.offers)
    return offered or part.profile in gpu.could


def _size(model: str, boards: dict[str, GpuSupply]) -> int:
    """By the fleet's own GPUs, else by the catalogue; 0 for a model that neither knows."""
    for known, gpu in boards.items():
        if known.casefold() == model.casefold():
            return memory_mib(gpu)
    found = (board for board in catalog.boards() if board.key.casefold() == model.casefold())
    return next((board.memory_gib * _MIB_PER_GIB for board in found), 0)
