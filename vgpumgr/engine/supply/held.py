"""What lives on one GPU: what we hold of it, and what foreigners use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vgpumgr.model import claim_units
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, Framework, GpuFacts, GpuRecord, VfFacts
from vgpumgr.model.host import HostFacts
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.placement import Offer, Usage
from vgpumgr.model.vm import Allocation


@dataclass(frozen=True, slots=True)
class HostContext:
    """What lives on a GPU's host: the last probe, our allocations, and foreign domains.

    ``layouts`` are the records of its GPUs, by GPU.
    """

    fleet: str
    facts: HostFacts
    held: Sequence[Allocation]
    foreign_domains: Sequence[DomainFacts]
    layouts: dict[str, LayoutRecord]


def claim_unit(allocation: Allocation) -> str:
    """The name of an allocation's claim on its host."""
    name = claim_units.mdev if allocation.framework == Framework.MDEV else claim_units.pci
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


def foreign_usages(gpu: GpuRecord, host: HostContext, offers: Sequence[Offer]) -> tuple[Usage, ...]:
    """Everything on the GPU that no allocation of ours accounts for."""
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


def foreign_holder(device: str, host: HostContext) -> str:
    """Who holds a PCI function: a domain that is not ours, or another fleet's claim."""
    for domain in host.foreign_domains:
        if device in domain.devices:
            return f"domain {domain.name}"
    for claim in host.facts.claims:
        if claim.unit == claim_units.pci(device) and claim.fleet != host.fleet:
            return f"claim of fleet {claim.fleet}"
    return ""


def _mdevs(
    gpu: GpuFacts, host: HostContext, offers: Sequence[Offer], known: set[str]
) -> Iterator[Usage]:
    parents = {gpu.device, *(vf.address for vf in gpu.vfs)}
    for mdev in host.facts.mdevs:
        if mdev.parent in parents and mdev.uuid not in known:
            offer = _offer(offers, mdev.type_id)
            yield _foreign(offer, mdev.type_id, Framework.MDEV, f"mdev {mdev.uuid}")


def _on_vf(
    gpu: GpuFacts, vf: VfFacts, host: HostContext, offers: Sequence[Offer]
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


def _whole(gpu: GpuRecord, host: HostContext, known: set[str]) -> Iterator[Usage]:
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
