"""Profiles that could stand in for another: as large, or the largest of the smaller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from vgpumgr import catalog
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.placement import Fleet, Offer
from vgpumgr.model.size import format_mib
from vgpumgr.model.vm import GpuRequest

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
