"""One GPU's supply: its slots less what we hold and what foreigners use. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vgpumgr import gpu as frameworks
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework, GpuFacts, GpuRecord, GpuState
from vgpumgr.model.host import HostFacts
from vgpumgr.model.placement import GpuSupply, Offer, Usage
from vgpumgr.model.vm import Allocation


@dataclass(frozen=True, slots=True)
class HostContext:
    """What lives on a GPU's host: the last probe, our allocations, and foreign domains."""

    fleet: str
    facts: HostFacts
    held: Sequence[Allocation]
    foreign_domains: Sequence[DomainFacts]


def gpu_supply(gpu: GpuRecord, host: HostContext) -> GpuSupply:
    """What placement may take from this GPU."""
    offers = tuple(_whole(offer, gpu.units) for offer in frameworks.offers(gpu.facts))
    ours = [allocation for allocation in host.held if allocation.gpu == gpu.id]
    foreign = _foreign_usages(gpu, host, offers)
    return GpuSupply(
        id=gpu.id,
        device=gpu.facts.device,
        model=gpu.facts.model,
        numa_node=gpu.facts.numa_node,
        units=gpu.units,
        free_slots=_free_slots(gpu.units, ours, foreign),
        offers=offers,
        usages=(*(_our_usage(each, offers) for each in ours), *foreign),
        same_size=any(offer.size_class for offer in offers),
        available=_available(gpu.facts, ours, host),
        blocked=_blocked(gpu) or _held_by_others(gpu, host),
        passthrough_blocked=_passthrough_blocked(gpu.facts, host.facts),
    )


def _whole(offer: Offer, units: int) -> Offer:
    """Passthrough takes every slot of the GPU."""
    return replace(offer, units=units) if offer.framework is Framework.PASSTHROUGH else offer


def _our_usage(allocation: Allocation, offers: Iterable[Offer]) -> Usage:
    offer = next((each for each in offers if each.profile == allocation.profile), None)
    return Usage(
        profile=allocation.profile,
        framework=Framework(allocation.framework),
        units=len(allocation.slots),
        size_class=offer.size_class if offer else 0,
        vm=allocation.vm,
    )


def _foreign_usages(gpu: GpuRecord, host: HostContext, offers: Iterable[Offer]) -> list[Usage]:
    known = {allocation.device for allocation in host.held}
    by_type = {offer.type_id: offer for offer in offers if offer.type_id}
    found = [
        _foreign_mdev(mdev.uuid, by_type.get(mdev.type_id), mdev.type_id)
        for mdev in host.facts.mdevs
        if mdev.parent == gpu.facts.device and mdev.uuid not in known
    ]
    holder = _foreign_holder(gpu.facts.device, host)
    if holder and gpu.facts.device not in known:
        found.append(
            Usage(
                profile=PASSTHROUGH_PROFILE,
                framework=Framework.PASSTHROUGH,
                units=gpu.units,
                foreign=holder,
            )
        )
    return found


def _foreign_mdev(uuid: str, offer: Offer | None, type_id: str) -> Usage:
    return Usage(
        profile=offer.profile if offer else type_id,
        framework=Framework.MDEV,
        units=offer.units if offer else 1,
        size_class=offer.size_class if offer else 0,
        foreign=f"mdev {uuid}",
    )


def _foreign_holder(device: str, host: HostContext) -> str:
    """Who holds the whole GPU: a domain that is not ours, or another fleet's claim."""
    for domain in host.foreign_domains:
        if device in domain.devices:
            return f"domain {domain.name}"
    for claim in host.facts.claims:
        if claim.unit == f"pci-{device}" and claim.fleet != host.fleet:
            return f"claim of fleet {claim.fleet}"
    return ""


def _free_slots(units: int, ours: list[Allocation], foreign: list[Usage]) -> tuple[int, ...]:
    """Slots we do not hold; foreigners have no slot numbers and are counted from the top."""
    taken = {slot for allocation in ours for slot in allocation.slots}
    free = [slot for slot in range(units) if slot not in taken]
    strangers = sum(usage.units for usage in foreign)
    return tuple(free[: max(0, len(free) - strangers)])


def _available(gpu: GpuFacts, ours: Sequence[Allocation], host: HostContext) -> dict[str, int]:
    """The driver's own counts, unless what we hold has changed since they were read."""
    seen = {mdev.uuid for mdev in host.facts.mdevs if mdev.parent == gpu.device}
    claimed = {
        claim.unit.removeprefix("mdev-") for claim in host.facts.claims if claim.fleet == host.fleet
    }
    if seen & claimed != {allocation.device for allocation in ours}:
        return {}
    return {each.type_id: each.available for each in gpu.mdev_types if each.available is not None}


def _blocked(gpu: GpuRecord) -> str:
    if gpu.state is not GpuState.HEALTHY:
        return str(gpu.state)
    if gpu.facts.mdev_types and not gpu.facts.type_units and gpu.facts.address is None:
        return "its budget is unknown: it was never seen empty"
    return ""


def _held_by_others(gpu: GpuRecord, host: HostContext) -> str:
    holder = _foreign_holder(gpu.facts.device, host)
    return f"it is held by {holder}, which is not ours" if holder else ""


def _passthrough_blocked(gpu: GpuFacts, facts: HostFacts) -> str:
    if not facts.iommu or gpu.iommu_group is None:
        return "the IOMMU is off"
    if gpu.device not in gpu.group_devices:
        return f"the members of IOMMU group {gpu.iommu_group} could not be read"
    if gpu.boot_vga:
        return "it is the host's console"
    _, strangers = frameworks.companions(gpu)
    if strangers:
        return f"IOMMU group {gpu.iommu_group} also holds {', '.join(strangers)}"
    return ""
