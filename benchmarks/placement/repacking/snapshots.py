"""Snapshots of fleets: filled to 92 % tightly, then left by VMs at random until 55 % are taken."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.placement.mixed_fleet import a40, a100
from vgpumgr.model.defrag import MoveMode, MoveRoute, Resident
from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply
from vgpumgr.model.vm import Affinity, GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.placement import Placer

FULL, LEFT = 0.92, 0.55
MOST_GROUPED = 64
VDI = tuple(f"A40-{gib}Q" for gib in (2, 4, 8, 16, 24))
MIG = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A kind of fleet. ``vcpus`` and ``memory_gib`` are a host's, per GPU; 0: more than enough.

    ``groups`` per GPU (of 64 at most): each VM is of one, and on no host with another of it.
    """

    board: GpuSupply
    profiles: tuple[str, ...]
    per_host: int
    vcpus: int = 0
    memory_gib: int = 0
    groups: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A fleet without its VMs, and the VMs where they are."""

    shape: Shape
    fleet: Fleet
    residents: tuple[Resident, ...]

    @property
    def poolable(self) -> bool:
        """Whether nothing but size tells its VMs apart."""
        shape = self.shape
        return not (shape.vcpus or shape.memory_gib or shape.groups or shape.board.gpu_slices)

    @property
    def allowed(self) -> int:
        """How many GPUs could be empty if VMs were liquids, one per size where those do not mix."""
        units, taken = self.shape.board.units, Counter[int]()
        for each in self.residents:
            for part in each.placed.assignments:
                taken[part.offer.size_class] += len(part.slots)
        gpus = sum(len(host.gpus) for host in self.fleet.hosts)
        return gpus - sum(-(-count // units) for count in taken.values())


def shapes() -> dict[str, Shape]:
    """By name: counted slots; one size per GPU; MIG; limits of hosts; anti-affinity."""
    sized = a40()
    offers = tuple(replace(each, size_class=0) for each in sized.offers)
    free = replace(sized, same_size=False, offers=offers)
    return {
        "1-D": Shape(board=free, profiles=VDI, per_host=1),
        "same-size": Shape(board=sized, profiles=VDI, per_host=2),
        "MIG": Shape(board=a100(), profiles=MIG, per_host=2),
        "host limits": Shape(board=free, profiles=VDI, per_host=4, vcpus=24, memory_gib=80),
        "anti-affinity": Shape(board=free, profiles=VDI, per_host=4, groups=2),
    }


def snapshot(shape: Shape, gpus: int, seed: int) -> Snapshot:
    """The same for the same seed."""
    rng = np.random.default_rng(seed)
    fleet, groups = _fleet(shape, gpus), min(gpus, MOST_GROUPED) * shape.groups
    placer, held = Placer(fleet, PlacementPolicy.DEPTH_FIRST), list[Placed]()
    target, taken, refused = FULL * gpus * shape.board.units, 0, 0
    while taken < target and refused < 20:
        decision = placer.decide(_request(shape, groups, rng, len(held) + refused), explain=False)
        if not isinstance(decision, Placed):
            refused += 1
            continue
        placer.commit(decision)
        held.append(decision)
        taken += _units(decision)
    order = rng.permutation(len(held)).tolist()
    while order and taken > LEFT * gpus * shape.board.units:
        taken -= _units(held[order.pop()])
    ways = {host.name: MoveRoute(how=MoveMode.LIVE) for host in fleet.hosts}
    stay = [held[number] for number in sorted(order)]
    return Snapshot(
        shape=shape, fleet=fleet, residents=tuple(_resident(each, ways) for each in stay)
    )


def _resident(placed: Placed, ways: dict[str, MoveRoute]) -> Resident:
    gpu_mib = sum(part.offer.memory_mib for part in placed.assignments)
    return Resident(placed=placed, ways=ways, gpu_mib=gpu_mib, memory_mib=placed.request.memory_mib)


def _units(placed: Placed) -> int:
    return sum(len(part.slots) for part in placed.assignments)


def _request(shape: Shape, groups: int, rng: np.random.Generator, number: int) -> VmSpec:
    profile = shape.profiles[rng.integers(len(shape.profiles))]
    labels = {"group": str(rng.integers(groups))} if groups else {}
    return VmSpec(
        name=f"vm-{number}",
        vcpus=int(rng.choice((2, 4, 8))),
        memory_mib=int(rng.choice((4, 8, 16, 32))) * 1024,
        gpus=(GpuRequest(profile=profile),),
        numa=NumaPolicy.NONE,
        labels=labels,
        affinity=Affinity(apart_from=labels),
    )


def _fleet(shape: Shape, gpus: int) -> Fleet:
    return Fleet(hosts=tuple(_host(shape, f"h{n}") for n in range(gpus // shape.per_host)))


def _host(shape: Shape, name: str) -> HostSupply:
    boards = (replace(shape.board, id=f"{name}/{n}") for n in range(shape.per_host))
    return HostSupply(
        name=name,
        free_vcpus=(shape.vcpus or 4096) * shape.per_host,
        free_memory_mib=(shape.memory_gib or 65536) * 1024 * shape.per_host,
        numa=(),
        gpus=tuple(boards),
    )
