"""The MIG GPU instances of a GPU, with what lives in each, and the slots they leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vgpumgr import gpu as frameworks
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.placement import InstanceSupply, Offer, Usage
from vgpumgr.model.vm import Allocation


def instances(
    gpu: GpuFacts, ours: Sequence[Allocation], foreign: Iterable[Usage], offers: Sequence[Offer]
) -> tuple[InstanceSupply, ...]:
    """Those the driver shows, and those we hold a place for but have not made yet."""
    if gpu.mig is None or not gpu.mig.enabled:
        return ()
    guests = list(foreign)
    found = {
        each.start: _Instance(each.id, each.profile, each.profile_id, each.start, each.size)
        for each in gpu.mig.instances or ()
    }
    for allocation in ours:
        part = allocation.instance
        if part is not None:
            planned = _Instance(None, part.profile, part.profile_id, part.start, part.size)
            found.setdefault(part.start, planned)
    return tuple(_supply(gpu, found[start], ours, guests, offers) for start in sorted(found))


def free_slots(
    units: int,
    ours: Iterable[Allocation],
    foreign: Iterable[Usage],
    carved: Iterable[InstanceSupply],
    offers: Sequence[Offer],
) -> tuple[int, ...]:
    """Slots we do not hold and no GPU instance lies on.

    A foreigner whose place is known takes just its slots; any other is counted from the top.
    """
    taken = {slot for allocation in ours for slot in allocation.slots}
    taken |= {slot for instance in carved for slot in instance.slots}
    strangers = 0
    inside = {instance.start for instance in carved}
    for usage in foreign:
        place = _slots_at(usage, offers)
        taken |= place
        if not place and usage.start not in inside:
            strangers += usage.units
    free = [slot for slot in range(units) if slot not in taken]
    return tuple(free[: max(0, len(free) - strangers)])


@dataclass(frozen=True, slots=True)
class _Instance:
    id: int | None
    profile: str
    profile_id: int
    start: int
    size: int


def _supply(
    gpu: GpuFacts,
    each: _Instance,
    ours: Sequence[Allocation],
    foreign: Sequence[Usage],
    offers: Sequence[Offer],
) -> InstanceSupply:
    slots = frameworks.slice_slots(gpu, each.start, each.size)
    gpu_slices, media = frameworks.slices_and_media(gpu, each.profile, each.profile_id)
    mine = [a for a in ours if a.instance is not None and a.instance.start == each.start]
    strangers = [usage for usage in foreign if usage.start == each.start]
    held = {slot for allocation in mine for slot in allocation.slots}
    free = [slot for slot in slots if slot not in held]
    others = sum(usage.units for usage in strangers)
    supply = InstanceSupply(
        id=each.id,
        profile=each.profile,
        profile_id=each.profile_id,
        start=each.start,
        size=each.size,
        gpu_slices=gpu_slices,
        slots=slots,
        free=tuple(free[: max(0, len(free) - others)]),
        media=media,
        vgpus=len(mine) + len(strangers),
    )
    return replace(supply, size_class=_size_class(mine, strangers, offers))


def _size_class(
    mine: Sequence[Allocation], strangers: Sequence[Usage], offers: Sequence[Offer]
) -> int:
    """What the vGPUs of an instance share; 0 while there is none."""
    classes = [usage.size_class for usage in strangers]
    by_name = {offer.profile: offer.size_class for offer in offers}
    classes += [by_name.get(allocation.profile, 0) for allocation in mine]
    return next((each for each in classes if each), 0)


def _slots_at(usage: Usage, offers: Sequence[Offer]) -> set[int]:
    if usage.start is None:
        return set()
    places = (
        place
        for offer in offers
        if offer.profile == usage.profile and offer.instance is None
        for place in offer.starts
    )
    return next((set(place.slots) for place in places if place.at == usage.start), set())
