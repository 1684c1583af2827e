"""Search for the GPUs of all parts of one VM: best choice first, with bounded backtracking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vgpumgr.model.placement import Reason
from vgpumgr.model.supply import Offer, PartitionSupply
from vgpumgr.placement.fit.gpu_rules import holders, judge, name, room
from vgpumgr.placement.fit.policy_keys import Key, Keys
from vgpumgr.placement.resources.demand import Demand, PartKind, rank, whole
from vgpumgr.placement.resources.gpu_slots import Spot
from vgpumgr.placement.resources.gpu_state import Family, GpuOccupancy
from vgpumgr.placement.resources.host_state import HostState

Place = tuple[str, int]
"""A GPU and a mask of its slots."""

SEARCH_STEPS = 500
"""Trials per host for a VM that mixes kinds of GPU parts. Requests of one kind need no search."""


@dataclass(frozen=True, slots=True)
class Pick:
    """One GPU part: the GPU, what it makes and where, and how good a choice it was."""

    gpu: GpuOccupancy
    kind: PartKind
    offer: Offer
    spot: Spot
    key: Key


@dataclass(frozen=True, slots=True)
class Picked:
    """Parts for one VM, and the NVSwitch partition of its whole GPUs where there is one."""

    picks: tuple[Pick, ...]
    partition_choice: PartitionChoice

    @property
    def key(self) -> tuple[Key, ...]:
        """Comparable among choices for equal demands; lower is better."""
        kinds = [kind.key for kind in self.partition_choice.demand.kinds]
        picks = self.picks
        if len(kinds) > 1:
            picks = tuple(sorted(picks, key=lambda pick: kinds.index(pick.kind.key)))
        return ((self.partition_choice.broken,), *(pick.key for pick in picks))


def pick_gpus(
    host: HostState,
    gpus: Sequence[GpuOccupancy],
    demand: Demand,
    keys: Keys,
    *,
    mixing: bool = False,
) -> Picked | None:
    """The best choice among ``gpus`` of ``host``; ``mixing`` leaves out what vGPUs must share."""
    for partition_choice in partition_choices(host, gpus, demand):
        if len(demand.kinds) > 1 and not _each_kind_has_room(gpus, partition_choice.demand):
            continue
        found = [
            Picked(picks, partition_choice)
            for family in ([None] if mixing else families(gpus, partition_choice.demand))
            if (picks := _GpuSearch(gpus, partition_choice, family, keys).run()) is not None
        ]
        if found:
            return min(found, key=lambda picked: picked.key)
    return None


def families(gpus: Iterable[GpuOccupancy], demand: Demand) -> list[Family | None]:
    """What the vGPUs of the VM may all be; [None] where nothing has to be the same.

    Board model and series must agree (source: NVIDIA AI Enterprise documentation, multi-vGPU).
    """
    if demand.vgpus < 2:
        return [None]
    made = (
        gpu.family(offer) for gpu in gpus for kind in demand.kinds for offer in gpu.matching(kind)
    )
    return list(dict.fromkeys(family for family in made if family)) or [None]


def _each_kind_has_room(gpus: Sequence[GpuOccupancy], demand: Demand) -> bool:
    """A quick no. By size the parts are not of one offer, and their number says little."""
    return all(
        sum(room(gpu, kind, demand) for gpu in gpus) >= kind.count
        for kind in demand.kinds
        if kind.profile
    )


class _GpuSearch:
    """One attempt with the GPUs that the choice of partition and the family leave."""

    def __init__(
        self,
        gpus: Sequence[GpuOccupancy],
        partition_choice: PartitionChoice,
        family: Family | None,
        keys: Keys,
    ) -> None:
        self._gpus = gpus
        self._partition_choice = partition_choice
        self._family = family
        self._key = keys.gpu
        self._places = keys.places
        self._steps = SEARCH_STEPS

    def run(self) -> tuple[Pick, ...] | None:
        kinds = self._partition_choice.demand.kinds
        if len(kinds) > 1:
            if not all(self._choices(kind, best_only=True) for kind in kinds):
                return None
            kinds = tuple(sorted(kinds, key=self._largest_first))
        elif kinds and kinds[0].whole:
            return self._whole(kinds[0])
        return self._run([kind for kind in kinds for _ in range(kind.count)], frozenset())

    def _whole(self, kind: PartKind) -> tuple[Pick, ...] | None:
        """Whole GPUs alone: none takes room from another."""
        picks = self._choices(kind, best_only=False)[: kind.count]
        return tuple(picks) if len(picks) == kind.count else None

    def _largest_first(self, kind: PartKind) -> tuple[bool, int]:
        """What takes the most room finds it while there is some."""
        units = (gpu.matching(kind)[0].units for gpu in self._gpus if gpu.matching(kind))
        return not kind.whole, -max(units, default=0)

    def _run(self, parts: Sequence[PartKind], tried: frozenset[Place]) -> tuple[Pick, ...] | None:
        """``tried``: a part of this kind was there, and nothing came of it."""
        if not parts:
            return ()
        # Parts of the last kind never take room from each other in a way that matters.
        for choice in self._choices(parts[0], best_only=parts[0] == parts[-1]):
            place = choice.gpu.supply.id, choice.spot.slots
            if place in tried:
                continue
            self._steps -= 1
            if self._steps < 0:
                return None
            rest = self._after(choice, parts, tried)
            if rest is not None:
                return (choice, *rest)
            tried |= {place}
        return None

    def _after(
        self, choice: Pick, parts: Sequence[PartKind], tried: frozenset[Place]
    ) -> tuple[Pick, ...] | None:
        """The rest of the parts, with the choice made for the first."""
        if len(parts) == 1:
            return ()
        taken = choice.gpu.take(choice.offer, choice.spot)
        rest = self._run(parts[1:], tried if parts[0] == parts[1] else frozenset())
        choice.gpu.give_back(taken)
        return rest

    def _choices(self, kind: PartKind, *, best_only: bool) -> list[Pick]:
        """All choices for one part, best first, or the best alone."""
        picks = [pick for gpu in self._gpus for pick in self._on(gpu, kind, best_only=best_only)]
        if best_only:
            return [min(picks, key=_by_key)] if picks else []
        return sorted(picks, key=_by_key)

    def _on(self, gpu: GpuOccupancy, kind: PartKind, *, best_only: bool) -> list[Pick]:
        for offer in gpu.matching(kind):
            if not self._may(gpu, offer):
                continue
            verdict = judge(gpu, offer, self._partition_choice.demand.vgpus)
            if not isinstance(verdict, Reason):
                # By name one offer is as good as another; by size the smaller is better.
                size = () if kind.profile else rank(offer)
                spots = verdict[:1] if best_only and not self._places else verdict
                return [
                    Pick(gpu, kind, offer, spot, size + self._key(gpu, offer, spot))
                    for spot in spots
                ]
        return []

    def _may(self, gpu: GpuOccupancy, offer: Offer) -> bool:
        if whole(offer):
            return (
                self._partition_choice.gpus is None or gpu.supply.id in self._partition_choice.gpus
            )
        family = gpu.family(offer) if self._family else None
        return family is None or family == self._family


def _by_key(pick: Pick) -> Key:
    return pick.key


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """One way to choose whole GPUs: which may go (None: any), and the larger partitions broken."""

    demand: Demand
    gpus: frozenset[str] | None = None
    partition: int | None = None
    broken: int = 0


def partition_choices(
    host: HostState, gpus: Sequence[GpuOccupancy], demand: Demand
) -> Iterator[PartitionChoice]:
    """The ways to choose whole GPUs among ``gpus``, best first.

    All GPUs of a free partition are empty, so policies do not tell partitions apart: what counts
    is how many larger ones stay free. Parts by size get whole GPUs when nothing smaller does.
    """
    if not host.supply.partitions:
        yield PartitionChoice(demand)
        return
    yield from _partition_ways(host, gpus, demand)
    all_whole = demand.all_whole()
    if all_whole != demand:
        yield from _partition_ways(host, gpus, all_whole)


def free_partitions(
    host: HostState, gpus: Sequence[GpuOccupancy], size: int
) -> list[tuple[int, PartitionSupply]]:
    """Free partitions of ``size`` among ``gpus``, with the number of larger ones they break."""
    usable = {gpu.supply.id for gpu in host.gpus if obstacle(gpu) is None}
    free = [each for each in host.supply.partitions if each.gpus <= usable]
    near = {gpu.supply.id for gpu in gpus}
    return [
        (sum(len(o.gpus) > size and bool(o.gpus & each.gpus) for o in free), each)
        for each in free
        if len(each.gpus) == size and each.gpus <= near
    ]


def _partition_ways(
    host: HostState, gpus: Sequence[GpuOccupancy], demand: Demand
) -> Iterator[PartitionChoice]:
    if not demand.whole:
        yield PartitionChoice(demand, frozenset())
        return
    free = free_partitions(host, gpus, demand.whole)
    for broken, partition in sorted(free, key=lambda pair: pair[0]):
        yield PartitionChoice(demand, partition.gpus, partition.id, broken)


def obstacle(gpu: GpuOccupancy) -> str | None:
    """Why the GPU cannot go whole, as the end of a sentence about its partition."""
    supply = gpu.supply
    if not gpu.empty:
        return f"holds {holders(gpu) or 'GPU instances'}"
    why = supply.blocked or supply.passthrough_blocked
    return f"cannot go: {name(gpu)}: {why}" if why else None
