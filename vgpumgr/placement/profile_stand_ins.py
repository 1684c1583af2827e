"""Profiles and boards that could stand in for others in a request: as large, or next smaller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from vgpumgr import catalog
from vgpumgr.model.formats import format_mib
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.supply import Fleet, GpuSupply, Offer
from vgpumgr.model.vm import GpuRequest
from vgpumgr.placement.scores.fragmentation import memory_mib

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
