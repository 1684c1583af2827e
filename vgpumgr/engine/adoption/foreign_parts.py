"""The GPU parts behind the host devices of a foreign domain, and the units they occupy."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from vgpumgr import catalog
from vgpumgr import gpu as frameworks
from vgpumgr.engine.adoption import candidate
from vgpumgr.engine.adoption.candidate import AdoptionHost, FoundPart, NotAdoptable
from vgpumgr.engine.inventory.gpu_usage import instances
from vgpumgr.model.allocation import Allocation, InstancePart
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.gpu import Framework, GpuFacts, GpuRecord, VfFacts
from vgpumgr.model.supply import Offer


def slots_of(
    part: FoundPart, gpu: GpuRecord, held: Iterable[Allocation], before: Sequence[FoundPart]
) -> tuple[int, ...]:
    """The slots where it lies, or as many free ones as it takes; () where the ledger has no room.

    ``before`` are parts that are adopted with it.
    """
    ours = [each for each in held if each.gpu == gpu.id]
    taken = {slot for each in ours for slot in each.slots}
    taken |= {slot for each in before if each.gpu == gpu.id for slot in each.slots}
    if part.offer.framework is Framework.PASSTHROUGH:
        return () if taken else tuple(range(gpu.units))
    place = _place(part, gpu.facts)
    if place is None:
        carved = instances(gpu.facts, ours, (), (part.offer,))
        inside = {slot for each in carved for slot in each.slots}
        place = tuple(slot for slot in range(gpu.units) if slot not in inside)
    free = tuple(slot for slot in place if slot not in taken)[: part.offer.units]
    return free if len(free) == part.offer.units else ()


def _place(part: FoundPart, gpu: GpuFacts) -> tuple[int, ...] | None:
    """The slots under its GPU instance or placement; None where any will do."""
    if part.instance is not None:
        return frameworks.slice_slots(gpu, part.instance.start, part.instance.size)
    if not part.offer.starts:
        return None
    starts = {start.at: start.slots for start in part.offer.starts}
    return starts.get(part.placement_id if part.placement_id is not None else -1, ())


def parts_of(
    domain: DomainFacts, around: AdoptionHost, managed: Container[str] = ()
) -> tuple[tuple[FoundPart, ...], tuple[str, ...]]:
    """A domain's GPU parts in their order, and every reason why a part cannot be adopted.

    ``managed`` are the functions that libvirt binds and releases by itself. A device on no GPU of
    the fleet (a NIC, a disk) stays as it is, managed or not.
    """
    found: list[FoundPart] = []
    why: list[str] = []
    following = _siblings(domain, around)
    for device in domain.devices:
        if device in managed and is_of_gpu(device, domain, around):
            why.append(
                f"libvirt binds {device} by itself at every start: virsh edit it to managed='no'"
            )
            continue
        if device in following:
            continue
        try:
            part = _part(device, domain, around, found)
        except NotAdoptable as reason:
            why.append(str(reason))
        else:
            found += [part] if part else []
    return tuple(found), tuple(why)


def is_of_gpu(device: str, domain: DomainFacts, around: AdoptionHost) -> bool:
    """Is it a part of a GPU? Any mdev is; a PCI function where it is a GPU, a VF of one, or goes
    with a whole one of the domain.
    """
    if ":" not in device or _function(device, around) is not None:
        return True
    return device in _siblings(domain, around)


def _siblings(domain: DomainFacts, around: AdoptionHost) -> frozenset[str]:
    """Functions that go with a whole GPU of the domain."""
    whole = [gpu.facts for gpu in around.gpus if gpu.facts.device in domain.devices]
    return frozenset(each for gpu in whole for each in frameworks.companions(gpu)[0])


def _part(
    device: str, domain: DomainFacts, around: AdoptionHost, before: Sequence[FoundPart]
) -> FoundPart | None:
    if ":" not in device:
        part = _mdev(device, around)
    else:
        at = _function(device, around)
        if at is None:
            return None
        gpu, vf = at
        part = _vf(gpu, vf) if vf else _whole(gpu, domain)
    candidate.check_free(part, domain, around)
    gpu = next(each for each in around.gpus if each.id == part.gpu)
    candidate.check_gpu(gpu)
    slots = slots_of(part, gpu, around.held, before)
    if not slots:
        raise NotAdoptable(
            f"{device}: the ledger has no free capacity for it on {gpu.facts.device}"
        )
    return replace(part, slots=slots)


def _mdev(uuid: str, around: AdoptionHost) -> FoundPart:
    mdev = next((each for each in around.facts.mdevs if each.uuid == uuid), None)
    if mdev is None:
        raise NotAdoptable(f"mdev {uuid} does not exist: create it, or start the domain")
    for gpu in around.gpus:
        vf = next((each for each in gpu.facts.vfs if each.address == mdev.parent), None)
        if mdev.parent == gpu.facts.device or vf is not None:
            offer = _offer(gpu, mdev.type_id, Framework.MDEV)
            return FoundPart(
                gpu=gpu.id,
                device=uuid,
                parent=mdev.parent,
                offer=offer,
                slots=(),
                vf=vf.number if vf else None,
                instance=_only_instance(gpu.facts, offer, f"mdev {uuid}"),
            )
    raise NotAdoptable(f"mdev {uuid} is on {mdev.parent}, which is not a known GPU")


def _function(address: str, around: AdoptionHost) -> tuple[GpuRecord, VfFacts | None] | None:
    """The GPU that a function is, or is a VF of; None where it is neither."""
    for gpu in around.gpus:
        if gpu.facts.device == address:
            return gpu, None
        for vf in gpu.facts.vfs:
            if vf.address == address:
                return gpu, vf
    return None


def _vf(gpu: GpuRecord, vf: VfFacts) -> FoundPart:
    if vf.vendor is None:
        return _plain_vf(gpu, vf)
    if not vf.vendor.type_id:
        what = "could not be read" if vf.vendor.type_id is None else "carries no vGPU"
        raise NotAdoptable(f"VF {vf.address} {what}: its intended profile is not known")
    offer = _offer(gpu, str(vf.vendor.type_id), Framework.VFIO_VF)
    return FoundPart(
        gpu=gpu.id,
        device=vf.address,
        offer=offer,
        slots=(),
        vf=vf.number,
        instance=_instance(gpu.facts, offer, vf),
        placement_id=vf.vendor.placement_id if offer.starts and not offer.instance else None,
    )


def _plain_vf(gpu: GpuRecord, vf: VfFacts) -> FoundPart:
    candidate.check_bound(vf.address, vf.driver)
    offers = frameworks.offers(gpu.facts)
    offer = next((each for each in offers if each.framework is Framework.PCI_VF), None)
    if offer is None:
        raise NotAdoptable(f"VF {vf.address} has no known profile")
    return FoundPart(gpu=gpu.id, device=vf.address, offer=offer, slots=(), vf=vf.number)


def _whole(gpu: GpuRecord, domain: DomainFacts) -> FoundPart:
    facts = gpu.facts
    candidate.check_bound(facts.device, facts.driver)
    board = catalog.board(facts.model)
    if board is not None and board.fabric:
        raise NotAdoptable(f"{facts.device} is on an NVSwitch board: its partition is not adopted")
    siblings, _ = frameworks.companions(facts)
    return FoundPart(
        gpu=gpu.id,
        device=facts.device,
        offer=_offer(gpu, "", Framework.PASSTHROUGH),
        slots=(),
        companions=tuple(each for each in siblings if each in domain.devices),
    )


def _offer(gpu: GpuRecord, type_id: str, framework: Framework) -> Offer:
    for offer in frameworks.offers(gpu.facts):
        if (offer.type_id, offer.framework) == (type_id, framework):
            return offer
    raise NotAdoptable(f"type {type_id} on {gpu.facts.device} has no known profile")


def _instance(gpu: GpuFacts, offer: Offer, vf: VfFacts) -> InstancePart | None:
    """The GPU instance that the driver says the vGPU is in."""
    if offer.instance is None or vf.vendor is None:
        return None
    there = (gpu.mig.instances if gpu.mig else None) or ()
    start = next((each.start for each in there if each.id == vf.vendor.instance), None)
    if start is None:
        raise NotAdoptable(f"the GPU instance of VF {vf.address} could not be read")
    return _part_at(gpu, offer, start)


def _only_instance(gpu: GpuFacts, offer: Offer, what: str) -> InstancePart | None:
    """An mdev's GPU instance is not told; where there is one of the profile alone, it is that."""
    if offer.instance is None:
        return None
    there = (gpu.mig.instances if gpu.mig else None) or ()
    starts = [each.start for each in there if each.profile_id == offer.instance.profile_id]
    if len(starts) != 1:
        raise NotAdoptable(f"{what}: it is unknown in which of {len(starts)} GPU instances it is")
    return _part_at(gpu, offer, starts[0])


def _part_at(gpu: GpuFacts, offer: Offer, start: int) -> InstancePart:
    assert offer.instance is not None
    return InstancePart(
        gpu=gpu.device,
        profile=offer.instance.profile,
        profile_id=offer.instance.profile_id,
        start=start,
        size=offer.instance.size,
        make=False,
    )
