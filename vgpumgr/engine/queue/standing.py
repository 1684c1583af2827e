"""What VMs of the queue hold, as placement would have answered it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.model.placement import Assignment, FreeVf, GpuSupply, HostSupply, Offer, Placed
from vgpumgr.model.vm import Allocation, VmRecord


def placed_as(vm: VmRecord, held: Sequence[Allocation], host: HostSupply) -> Placed | None:
    """Where a VM is, on the supply of its host without it; None where that does not offer any more
    what the VM holds: then it can only be left where it is.
    """
    gpus = {gpu.id: gpu for gpu in host.gpus}
    parts = [_part(each, gpus[each.gpu]) for each in held if each.gpu in gpus]
    found = tuple(part for part in parts if part is not None)
    if len(found) < len(held):
        return None
    return Placed(
        request=vm.spec,
        host=vm.host,
        assignments=found,
        numa_node=vm.numa_node,
        cpus=vm.cpus,
        partition=next((each.partition for each in held if each.partition is not None), None),
    )


def _part(held: Allocation, gpu: GpuSupply) -> Assignment | None:
    offer = next((each for each in gpu.offers if _is_of(held, each)), None)
    vf = next((each for each in gpu.free_vfs if each.number == held.vf), None)
    if offer is None or not _is_free(held, gpu) or (held.vf is not None and vf is None):
        return None
    start = held.instance.start if held.instance else held.placement_id
    return Assignment(
        gpu=gpu.id,
        device=gpu.device,
        offer=offer,
        slots=held.slots,
        start=start,
        vf=FreeVf(number=vf.number, address=vf.address) if vf else None,
        make_instance=bool(held.instance) and start not in {each.start for each in gpu.instances},
        frame_rate_limiter=held.frame_rate_limiter,
    )


def _is_of(held: Allocation, offer: Offer) -> bool:
    return (offer.profile, offer.framework) == (held.profile, held.framework)


def _is_free(held: Allocation, gpu: GpuSupply) -> bool:
    inside = {slot for each in gpu.instances for slot in each.free}
    return set(held.slots) <= {*gpu.free_slots, *inside}
