"""A placement's assignments → what the VM holds of each GPU."""

from __future__ import annotations

from vgpumgr import gpu
from vgpumgr.engine.creation.site import Site
from vgpumgr.engine.running.opening import Opening
from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.vm import Allocation, InstancePart


def allocate(
    part: Assignment, placed: Placed, vm_id: str, site: Site, opening: Opening
) -> Allocation:
    """What one assignment takes, under an id of its own."""
    new_id = opening.new_uuid()
    facts = site.gpus[part.gpu].facts
    offer = part.offer
    function = part.vf.address if part.vf else facts.device
    is_mdev = offer.framework is Framework.MDEV
    whole = offer.framework is Framework.PASSTHROUGH
    return Allocation(
        id=new_id,
        vm_id=vm_id,
        vm=placed.request.name,
        host=site.host.name,
        gpu=part.gpu,
        profile=offer.profile,
        framework=offer.framework,
        device=new_id if is_mdev else function,
        slots=part.slots,
        type_id=offer.type_id,
        parent=function if is_mdev else "",
        companions=gpu.companions(facts)[0] if whole else (),
        vf=part.vf.number if part.vf else None,
        instance=_instance(part, site),
        placement_id=part.start if offer.starts and offer.instance is None else None,
        frame_rate_limiter=part.frame_rate_limiter,
        partition=placed.partition if whole else None,
        memory_mib=offer.memory_mib,
        created_at=opening.now,
    )


def _instance(part: Assignment, site: Site) -> InstancePart | None:
    offer, facts = part.offer.instance, site.gpus[part.gpu].facts
    if offer is None or part.start is None:
        return None
    return InstancePart(
        gpu=facts.device,
        profile=offer.profile,
        profile_id=offer.profile_id,
        start=part.start,
        size=offer.size,
        make=part.make_instance or not _is_of_layout(part, site),
    )


def _is_of_layout(part: Assignment, site: Site) -> bool:
    """Is it there, and for no VM? One that VMs share any of them may have to make again."""
    facts = site.gpus[part.gpu].facts
    there = {each.start for each in (facts.mig.instances if facts.mig else None) or ()}
    return part.start in there and part.start not in site.made.get(part.gpu, ())
