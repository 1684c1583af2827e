"""The request mix: weighted requests that are expected, which fragmentation is measured against."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from vgpumgr.model.gpu import Framework
from vgpumgr.model.supply import Fleet, GpuSupply, Offer
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement.resources.demand import KindKey, demand_of, kind_key, kind_of, matching

_KEPT = 0.95
"""The share of a history that its commonest types must make up."""

FIRST_MIX = 10
"""Requests before the first mix: fewer tell less than what the fleet can make."""

REMEMBERED = 20_000
"""Requests of which mix and plan are made: the latest. Older ones are of another time."""

MOST = 256
"""Types that count, at most, and as many rare ones: every decision looks at all of them."""


@dataclass(frozen=True, slots=True)
class Mix:
    """Requests with weights; only their GPU parts, vCPUs and memory matter, and weights relatively.

    ``rare`` are requests that may come too, but too seldom to count: a decision about what is
    expected is faster.
    Raises ValueError where a weight is not positive.
    """

    requests: tuple[tuple[VmSpec, float], ...]
    rare: tuple[VmSpec, ...] = ()

    def __post_init__(self) -> None:
        if any(weight <= 0 for _, weight in self.requests):
            raise ValueError("a weight of the mix is not positive")

    @property
    def with_rare(self) -> Mix:
        """The same mix with the rare requests among the others, each as if it had come once."""
        return Mix((*self.requests, *((request, 1.0) for request in self.rare)))

    @classmethod
    def of(cls, history: Iterable[VmSpec]) -> Mix:
        """The commonest types of a history, which make up 95 % of it, by how often they came.

        At most 256, and at most 256 rare ones.
        """
        counts: dict[object, int] = {}
        first: dict[object, VmSpec] = {}
        for request in history:
            demand = demand_of(request, PlacementPolicy.CAPACITY_FIRST, founding=False)
            key = demand.kinds, demand.vcpus, demand.memory_mib
            first.setdefault(key, request)
            counts[key] = counts.get(key, 0) + 1
        ranked = sorted(counts, key=lambda key: -counts[key])
        enough, kept = _KEPT * sum(counts.values()), []
        for common in ranked[:MOST]:
            if enough <= 0:
                break
            kept.append((first[common], float(counts[common])))
            enough -= counts[common]
        rest = ranked[len(kept) :][:MOST]
        return cls(tuple(kept), tuple(first[seldom] for seldom in rest))


def creatable(fleet: Fleet) -> Mix:
    """Everything that some GPU of the fleet makes, alike: the mix where nothing better is known.

    Profiles that lie alike on the same board (the series of one size) are one entry.
    """
    parts: dict[Hashable, tuple[GpuRequest, float]] = {}
    for gpu, offer in _offers(fleet):
        made = offer.instance.profile_id if offer.instance else None
        key = gpu.model, offer.framework is Framework.PASSTHROUGH, offer.units, offer.starts, made
        part = GpuRequest(profile=offer.profile, model=gpu.model)
        known, weight = parts.get(key, (part, 0.0))
        parts[key] = known, weight + 1.0
    return Mix(
        tuple(
            (VmSpec(name="", vcpus=0, memory_mib=0, gpus=(part,)), weight)
            for part, weight in parts.values()
        )
    )


def made_by(fleet: Fleet, requests: Iterable[VmSpec]) -> list[VmSpec]:
    """The requests of which some GPU of the fleet makes every part.

    A request that no GPU can make says nothing of what will find room.
    """
    boards = {(gpu.model, id(gpu.offers)): gpu for host in fleet.hosts for gpu in host.gpus}
    known: dict[KindKey, bool] = {}

    def made(part: GpuRequest) -> bool:
        key = kind_key(part)
        if key not in known:
            kind = kind_of(part)
            known[key] = any(
                kind.allows(gpu.model) and matching(gpu.offers, kind) for gpu in boards.values()
            )
        return known[key]

    return [request for request in requests if all(map(made, request.gpus))]


def _offers(fleet: Fleet) -> Iterator[tuple[GpuSupply, Offer]]:
    """Once per GPU model and its offers, however many GPUs have them, and in whatever states."""
    seen: set[tuple[str, int]] = set()  # most of them are the very same: told without their values
    known: set[tuple[str, tuple[Offer, ...]]] = set()
    for host in fleet.hosts:
        for gpu in host.gpus:
            if (gpu.model, id(gpu.offers)) not in seen:
                seen.add((gpu.model, id(gpu.offers)))
                if (gpu.model, gpu.offers) not in known:
                    known.add((gpu.model, gpu.offers))
                    yield from ((gpu, offer) for offer in gpu.offers)
