"""Requests that ask for less than a given one, each in one respect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from vgpumgr.model.placement import Fleet
from vgpumgr.model.size import format_mib
from vgpumgr.model.vm import GpuRequest, NumaPolicy, VmSpec
from vgpumgr.placement.whatif.alternative import Kind
from vgpumgr.placement.whatif.models import others
from vgpumgr.placement.whatif.profiles import nearest


@dataclass(frozen=True, slots=True)
class Easier:
    """A request that differs from the one asked about as ``text`` says."""

    kind: Kind
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
        yield Easier(Kind.FRAMEWORK, text, replace(request, gpus=gpus))


def _other_models(request: VmSpec, fleet: Fleet) -> Iterator[Easier]:
    """One board in place of those that parts name, in all parts that ask for the same."""
    for part in dict.fromkeys(request.gpus):
        for other in others(part, fleet):
            gpus = tuple(_instead(each, part, other.part) for each in request.gpus)
            kind = Kind.SMALLER if other.smaller else Kind.MODEL
            yield Easier(kind, other.text, replace(request, gpus=gpus))


def _plainer(request: VmSpec) -> Iterator[Easier]:
    if request.numa is NumaPolicy.REQUIRE:
        relaxed = replace(request, numa=NumaPolicy.PREFER)
        yield Easier(Kind.NUMA, "with numa: prefer instead of require", relaxed)
    if request.pin_cpus:
        yield Easier(Kind.PINNING, "without pin_cpus", replace(request, pin_cpus=False))
    if request.hugepage_kib is not None:
        text = f"without hugepages: {format_mib(request.hugepage_kib // 1024)}"
        yield Easier(Kind.HUGEPAGES, text, replace(request, hugepage_kib=None))


def _other_profiles(request: VmSpec, fleet: Fleet) -> Iterator[Easier]:
    """One profile, or size, in place of another, in all parts that ask for it."""
    for part in dict.fromkeys(request.gpus):
        for other in nearest(part, fleet):
            gpus = tuple(_instead(each, part, other.part) for each in request.gpus)
            kind = Kind.SMALLER if other.smaller else Kind.PROFILE
            yield Easier(kind, other.text, replace(request, gpus=gpus))


def _instead(each: GpuRequest, old: GpuRequest, new: GpuRequest) -> GpuRequest:
    return new if each == old else each


def _anywhere(request: VmSpec) -> Iterator[Easier]:
    affinity = request.affinity
    if affinity.hosts:
        text = f"without affinity.hosts: {', '.join(affinity.hosts)}"
        freed = replace(affinity, hosts=())
        yield Easier(Kind.AFFINITY, text, replace(request, affinity=freed))
    for clause, labels, freed in (
        ("host_labels", affinity.host_labels, replace(affinity, host_labels={})),
        ("together_with", affinity.together_with, replace(affinity, together_with={})),
        ("apart_from", affinity.apart_from, replace(affinity, apart_from={})),
    ):
        if labels:
            pairs = ", ".join(f"{key}: {value}" for key, value in labels.items())
            text = f"without affinity.{clause}: {{{pairs}}}"
            yield Easier(Kind.AFFINITY, text, replace(request, affinity=freed))


def _fewer_parts(request: VmSpec) -> Iterator[Easier]:
    for part in dict.fromkeys(request.gpus):
        for count in range(part.count - 1, 0, -1):
            gpus = tuple(_instead(each, part, replace(part, count=count)) for each in request.gpus)
            what = part.profile or format_mib(part.memory_mib or 0)
            text = f"with {count} × {what} instead of {part.count}"
            yield Easier(Kind.COUNT, text, replace(request, gpus=gpus))


def _less_of_the_host(request: VmSpec, fleet: Fleet) -> Iterator[Easier]:
    """Only what some host has free can help: the most of it first."""
    vcpus = {host.free_vcpus for host in fleet.hosts}
    if request.pin_cpus:
        vcpus |= {sum(len(node.free_cpus) for node in host.numa) for host in fleet.hosts}
        vcpus |= {len(node.free_cpus) for host in fleet.hosts for node in host.numa}
    for count in _below(request.vcpus, vcpus):
        text = f"with vcpus: {count} instead of {request.vcpus}"
        yield Easier(Kind.VCPUS, text, replace(request, vcpus=count))
    if request.hugepage_kib is None:
        free = {host.free_memory_mib for host in fleet.hosts}
        for mib in _below(request.memory_mib, {each // 1024 * 1024 for each in free}):
            text = f"with memory: {format_mib(mib)} instead of {format_mib(request.memory_mib)}"
            yield Easier(Kind.MEMORY, text, replace(request, memory_mib=mib))


def _below(asked: int, free: Iterable[int]) -> list[int]:
    return sorted((each for each in free if 0 < each < asked), reverse=True)
