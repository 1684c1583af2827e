"""Checks a plan step by step, by arithmetic of its own on the catalogue's numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.placement.checker import InvalidPlacement
from vgpumgr.model.defrag import Resident, VmMove
from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply


def check(fleet: Fleet, residents: Sequence[Resident], moves: Sequence[VmMove], empty: int) -> None:
    """Raises ``InvalidPlacement`` unless every step is feasible and ``empty`` GPUs end up empty.

    In a step the VM is in both of its places.
    """
    at = {each.placed.request.name: each.placed for each in residents}
    _feasible(fleet, at.values(), "before")
    for number, move in enumerate(moves, 1):
        here = at.pop(move.vm)
        if not _same(here, move.source) or here.host == move.target.host:
            raise InvalidPlacement(f"move {number}: {move.vm} is not there, or stays on its host")
        there = [each for each in at.values() if each.host == move.target.host]
        _feasible(_only(fleet, move.target.host), [*there, move.target], f"move {number}")
        at[move.vm] = move.target
    taken = {part.gpu for placed in at.values() for part in placed.assignments}
    left = sum(gpu.id not in taken for host in fleet.hosts for gpu in host.gpus)
    if left < empty:
        raise InvalidPlacement(f"{left} GPUs are empty, {empty} were promised")


def _only(fleet: Fleet, name: str) -> Fleet:
    """The one host that a move changes for the worse: on the other the VM still is."""
    return Fleet(hosts=tuple(host for host in fleet.hosts if host.name == name))


def _same(placed: Placed, other: Placed) -> bool:
    gpus = [(part.gpu, part.start) for part in placed.assignments]
    return placed.host == other.host and gpus == [(p.gpu, p.start) for p in other.assignments]


def _feasible(fleet: Fleet, live: Iterable[Placed], when: str) -> None:
    by_host = defaultdict(list)
    for placed in live:
        by_host[placed.host].append(placed)
    for host in fleet.hosts:
        for fault in _on_host(host, by_host[host.name]):
            raise InvalidPlacement(f"{when}: {host.name}: {fault}")


def _on_host(host: HostSupply, live: Sequence[Placed]) -> Iterator[str]:
    requests = [placed.request for placed in live]
    if sum(each.vcpus for each in requests) > host.free_vcpus:
        yield "vCPUs"
    if sum(each.memory_mib for each in requests) > host.free_memory_mib:
        yield "memory"
    groups = Counter(each.labels["group"] for each in requests if each.affinity.apart_from)
    if any(count > 1 for count in groups.values()):
        yield "anti-affinity"
    for gpu in host.gpus:
        yield from _on_gpu(
            gpu, [p for placed in live for p in placed.assignments if p.gpu == gpu.id]
        )


def _on_gpu(gpu: GpuSupply, parts: Sequence) -> Iterator[str]:  # type: ignore[type-arg]
    slots = Counter(slot for part in parts for slot in part.slots)
    if any(count > 1 for count in slots.values()) or any(slot >= gpu.units for slot in slots):
        yield f"{gpu.id}: slots"
    for part in parts:
        starts = {start.at: start.slots for start in part.offer.starts}
        if starts and starts.get(part.start) != part.slots:
            yield f"{gpu.id}: {part.offer.profile} does not begin there"
    slices = sum(part.offer.instance.gpu_slices for part in parts if part.offer.instance)
    if slices > gpu.gpu_slices:
        yield f"{gpu.id}: compute slices"
    if gpu.same_size and len({part.offer.size_class for part in parts}) > 1:
        yield f"{gpu.id}: vGPUs of several sizes"
