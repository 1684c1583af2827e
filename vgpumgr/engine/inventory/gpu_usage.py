"""Usage of one GPU: allocations of ours, foreign use, and its MIG instances with the slots they
leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vgpumgr import gpu as frameworks
from vgpumgr.model import formats
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework, GpuFacts, GpuRecord, VfFacts
from vgpumgr.model.host import HostFacts
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.supply import InstanceSupply, Offer, Usage


@dataclass(frozen=True, slots=True)
class HostContents:
    """The contents of a GPU's host: the last probe, the fleet's allocations, and foreign domains.

    ``layouts`` are the records of its GPUs, by GPU.
    """

    fleet: str
    facts: HostFacts
    held: Sequence[Allocation]
    foreign_domains: Sequence[DomainFacts]
    layouts: dict[str, LayoutRecord]


def claim_unit(allocation: Allocation) -> str:
    """The name of an allocation's claim on its host."""
    name = formats.mdev_claim if allocation.framework == Framework.MDEV else formats.pci_claim
    return name(allocation.device)


def nvml_unread(gpu: GpuFacts, facts: HostFacts) -> str:
    """Why the modes and instances of a GPU on NVIDIA's driver are not known; empty: they are."""
    if gpu.driver != "nvidia":
        return ""
    parts = {"nvml", f"nvml {gpu.device}"}
    return next((each.why for each in facts.unknown if each.part in parts), "")


def our_usage(allocation: Allocation, offers: Iterable[Offer]) -> Usage:
    """An allocation as placement sees it."""
    offer = next((each for each in offers if each.profile == allocation.profile), None)
    instance = allocation.instance
    return Usage(
        profile=allocation.profile,
        framework=Framework(allocation.framework),
        units=len(allocation.slots),
        size_class=offer.size_class if offer else 0,
        vm=allocation.vm,
        start=instance.start if instance else allocation.placement_id,
    )


def foreign_usages(
    gpu: GpuRecord, host: HostContents, offers: Sequence[Offer]
) -> tuple[Usage, ...]:
    """Usages of the GPU that belong to no allocation of the fleet."""
    known = {allocation.device for allocation in host.held}
    return (
        *_mdevs(gpu.facts, host, offers, known),
        *(
            usage
            for vf in gpu.facts.vfs
            if vf.address not in known
            for usage in _on_vf(gpu.facts, vf, host, offers)
        ),
        *_whole(gpu, host, known),
    )


def foreign_holder(device: str, host: HostContents) -> str:
    """The foreign holder of a PCI function: a foreign domain, or another fleet's claim."""
    for domain in host.foreign_domains:
        if device in domain.devices:
            return f"domain {domain.name}"
    unit = formats.pci_claim(device)
    for claim in host.facts.claims:
        if claim.unit == unit and claim.fleet != host.fleet:
            return f"claim of fleet {claim.fleet}"
    return ""


def _mdevs(
    gpu: GpuFacts, host: HostContents, offers: Sequence[Offer], known: set[str]
) -> Iterator[Usage]:
    parents = {gpu.device, *(vf.address for vf in gpu.vfs)}
    for mdev in host.facts.mdevs:
        if mdev.parent in parents and mdev.uuid not in known:
            offer = _offer(offers, mdev.type_id)
            yield _foreign(offer, mdev.type_id, Framework.MDEV, f"mdev {mdev.uuid}")
    for parent, type_id, fleet in promised_mdevs(host):
        if parent in parents:
            yield _foreign(
                _offer(offers, type_id), type_id, Framework.MDEV, f"claim of fleet {fleet}"
            )


def promised_mdevs(host: HostContents) -> Iterator[tuple[str, str, str]]:
    """Parent, type and fleet of each mdev that another fleet has claimed and that is not there: a
    boot took it, and its fleet brings it back.
    """
    there = {mdev.uuid for mdev in host.facts.mdevs}
    for claim in host.facts.claims:
        wanted = claim.wanted
        if claim.fleet != host.fleet and wanted.get("uuid") not in there | {None}:
            yield str(wanted.get("parent")), str(wanted.get("type")), claim.fleet


def _on_vf(
    gpu: GpuFacts, vf: VfFacts, host: HostContents, offers: Sequence[Offer]
) -> Iterator[Usage]:
    """A vGPU on the VF, or a plain VF that a foreign domain names."""
    vendor = vf.vendor
    if vendor is not None and vendor.type_id != 0:
        type_id = "unknown" if vendor.type_id is None else str(vendor.type_id)
        inside = _start_of(gpu, vendor.instance)
        start = vendor.placement_id if inside is None else inside
        offer = _offer(offers, type_id)
        yield _foreign(offer, type_id, Framework.VFIO_VF, f"vGPU on {vf.address}", start)
        return
    holder = foreign_holder(vf.address, host)
    if holder:
        offer = next((o for o in offers if o.framework is Framework.PCI_VF), None)
        yield _foreign(offer, "VF", Framework.PCI_VF, f"{holder} on {vf.address}")


def _whole(gpu: GpuRecord, host: HostContents, known: set[str]) -> Iterator[Usage]:
    holder = foreign_holder(gpu.facts.device, host)
    if holder and gpu.facts.device not in known:
        yield Usage(
            profile=PASSTHROUGH_PROFILE,
            framework=Framework.PASSTHROUGH,
            units=gpu.units,
            foreign=holder,
        )


def _offer(offers: Sequence[Offer], type_id: str) -> Offer | None:
    return next((offer for offer in offers if offer.type_id == type_id), None)


def _start_of(gpu: GpuFacts, instance: int | None) -> int | None:
    found = gpu.mig.instances if gpu.mig else None
    return next((each.start for each in found or () if each.id == instance), None)


def _foreign(
    offer: Offer | None, name: str, framework: Framework, what: str, start: int | None = None
) -> Usage:
    return Usage(
        profile=offer.profile if offer else name,
        framework=framework,
        units=offer.units if offer else 1,
        size_class=offer.size_class if offer else 0,
        foreign=what,
        start=start,
    )


def instances(
    gpu: GpuFacts, ours: Sequence[Allocation], foreign: Iterable[Usage], offers: Sequence[Offer]
) -> tuple[InstanceSupply, ...]:
    """The GPU instances that the driver shows, and reserved ones that are not made yet."""
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
    """Slots without an allocation of the fleet and without a GPU instance.

    Foreign use at a known place takes just its slots; any other is counted from the top.
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
    """The size class of the vGPUs of an instance; 0 while there is none."""
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
