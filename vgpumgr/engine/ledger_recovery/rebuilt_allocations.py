"""Allocations rebuilt from the claims on a host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vgpumgr import gpu as frameworks
from vgpumgr.engine.adoption.candidate import FoundPart
from vgpumgr.engine.adoption.foreign_parts import slots_of
from vgpumgr.model.gpu import Framework, GpuRecord, VfFacts
from vgpumgr.model.host import ClaimFacts
from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import Allocation, AllocationState, InstancePart, VmRecord


class NotTaken(Exception):
    """Why a claim cannot become an allocation."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The GPUs of a host, what the ledger holds on them, and the time (Unix seconds)."""

    gpus: Sequence[GpuRecord]
    held: Sequence[Allocation]
    now: float


def allocation(
    claim: ClaimFacts, owner: VmRecord, ground: Ground, partition: int | None
) -> Allocation:
    """All that the claim says, and free units for it. NotTaken when there are none."""
    gpu, part = _part(claim, ground.gpus)
    holder = next((each for each in ground.held if each.device == part.device), None)
    if holder is not None:
        raise NotTaken(f"the ledger has {part.device} as {holder.vm}'s: {_deleted(holder.vm)}")
    slots = slots_of(part, gpu, ground.held, ())
    if not slots:
        names = _holders(gpu, ground.held)
        raise NotTaken(f"the ledger has its units as those of {names}: {_deleted('NAME')}")
    limiter = _mapping(claim.wanted, "params").get("frame_rate_limiter")
    offer = part.offer
    return Allocation(
        id=claim.allocation,
        vm_id=owner.id,
        vm=owner.name,
        host=gpu.host,
        gpu=gpu.id,
        profile=offer.profile,
        framework=offer.framework,
        device=part.device,
        slots=slots,
        type_id=offer.type_id,
        parent=part.parent,
        companions=part.companions,
        vf=part.vf,
        instance=part.instance,
        placement_id=part.placement_id,
        frame_rate_limiter=None if limiter is None else bool(limiter),
        partition=partition if offer.framework is Framework.PASSTHROUGH else None,
        state=AllocationState.ACTIVE,
        generation=claim.generation,
        created_at=ground.now,
    )


def _deleted(name: str) -> str:
    return f"if it was deleted, add --forget {name}"


def _holders(gpu: GpuRecord, held: Iterable[Allocation]) -> str:
    names = sorted({each.vm for each in held if each.gpu == gpu.id})
    return ", ".join(names) or "nobody"


def _part(claim: ClaimFacts, gpus: Sequence[GpuRecord]) -> tuple[GpuRecord, FoundPart]:
    wanted = claim.wanted
    match wanted.get("kind"):
        case "mdev":
            parent = str(wanted.get("parent", ""))
            gpu, vf = _at(parent, gpus)
            offer = _offer(gpu, str(wanted.get("type", "")), Framework.MDEV)
            part = FoundPart(
                gpu=gpu.id, device=str(wanted.get("uuid", "")), offer=offer, slots=(), parent=parent
            )
        case "vgpu":
            gpu, vf = _at(str(wanted.get("vf", "")), gpus)
            offer = _offer(gpu, str(wanted.get("type", "")), Framework.VFIO_VF)
            part = FoundPart(gpu=gpu.id, device=str(wanted.get("vf", "")), offer=offer, slots=())
        case "vfio":
            gpu, vf = _at(str(wanted.get("address", "")), gpus)
            part = _bound(wanted, gpu, vf)
        case other:
            raise NotTaken(f"a claim of kind {other} is unknown")
    return gpu, replace(part, vf=vf.number if vf else None, **_where(wanted, part.offer))


def _bound(wanted: Mapping[str, object], gpu: GpuRecord, vf: VfFacts | None) -> FoundPart:
    framework = Framework.PCI_VF if vf else Framework.PASSTHROUGH
    offer = next((o for o in frameworks.offers(gpu.facts) if o.framework is framework), None)
    if offer is None:
        raise NotTaken(f"{gpu.facts.device} has no known profile")
    others = wanted.get("with")
    names = [str(each.get("address", "")) for each in others] if isinstance(others, list) else []
    device = str(wanted.get("address", ""))
    return FoundPart(gpu=gpu.id, device=device, offer=offer, slots=(), companions=tuple(names))


def _at(address: str, gpus: Sequence[GpuRecord]) -> tuple[GpuRecord, VfFacts | None]:
    for gpu in gpus:
        vf = next((each for each in gpu.facts.vfs if each.address == address), None)
        if vf is not None or gpu.facts.device == address:
            return gpu, vf
    raise NotTaken(f"{address} is on no GPU that the host shows now")


def _offer(gpu: GpuRecord, type_id: str, framework: Framework) -> Offer:
    for offer in frameworks.offers(gpu.facts):
        if (offer.type_id, offer.framework) == (type_id, framework):
            return offer
    raise NotTaken(f"type {type_id} on {gpu.facts.device} has no known profile")


def _where(wanted: Mapping[str, object], offer: Offer) -> dict[str, Any]:
    """The place it was given: its GPU instance, or its placement id."""
    inside = _mapping(wanted, "instance")
    if inside and offer.instance is not None:
        return {
            "instance": InstancePart(
                gpu=inside["gpu"],
                profile=offer.instance.profile,
                profile_id=inside["profile_id"],
                start=inside["start"],
                size=inside["size"],
                make=bool(inside.get("make", True)),
            )
        }
    return {"placement_id": wanted.get("placement_id")}


def _mapping(wanted: Mapping[str, object], key: str) -> Mapping[str, Any]:
    found = wanted.get(key)
    return found if isinstance(found, dict) else {}
