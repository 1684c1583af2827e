"""What still fits, per profile. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from vgpumgr.engine.headroom.growth import Growth
from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Fleet, Offer
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.placement import headroom
from vgpumgr.placement.forecast import Lasting


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRoom:
    """How many more VMs with one part of a profile fit, and how many parts are in use.

    ``memory_mib`` is 0 for whole GPUs: it differs from board to board. ``frameworks`` are the ways
    in which the fleet's hosts make it: one profile may be an mdev here and a VF there. ``lasting``
    is how long that is enough by ``history_days`` of history, None where these are too few.
    ``fits_after`` is how many it would be after a layout with the lines ``layout`` on empty GPUs;
    0 where no layout makes it more.
    """

    profile: str
    frameworks: tuple[Framework, ...]
    memory_mib: int
    fits: int
    in_use: int
    verified: bool
    lasting: Lasting | None = None
    history_days: int = 0
    fits_after: int = 0
    layout: str = ""


def capacity(
    fleet: Fleet, shape: VmSpec, profiles: Iterable[str] = (), growth: Growth | None = None
) -> tuple[ProfileRoom, ...]:
    """Headroom of every profile that some GPU of the fleet can make.

    ``shape`` gives the VM's vCPUs, memory and constraints; its GPUs are replaced by one part of
    the profile. The number is exact: that many more requests succeed and the next is refused.
    """
    offers = _offers(fleet)
    wanted = set(profiles)
    rooms = (
        ProfileRoom(
            profile=name,
            frameworks=_frameworks(fleet, name),
            memory_mib=_memory(offer),
            fits=headroom(fleet, one_of(shape, name)),
            in_use=_in_use(fleet, name),
            verified=offer.verified,
        )
        for name, offer in sorted(offers.items())
        if not wanted or name in wanted
    )
    if growth is None:
        return tuple(rooms)
    return tuple(
        replace(
            room,
            lasting=growth.lasting(room.profile, room.fits),
            history_days=growth.days,
        )
        for room in rooms
    )


def one_of(shape: VmSpec, profile: str) -> VmSpec:
    """The shape with exactly one part of the profile."""
    return VmSpec(
        name=shape.name,
        vcpus=shape.vcpus,
        memory_mib=shape.memory_mib,
        gpus=(GpuRequest(profile=profile),),
        affinity=shape.affinity,
        labels=shape.labels,
    )


def _offers(fleet: Fleet) -> dict[str, Offer]:
    return {
        offer.profile: offer for host in fleet.hosts for gpu in host.gpus for offer in gpu.offers
    }


def _frameworks(fleet: Fleet, profile: str) -> tuple[Framework, ...]:
    offers = (offer for host in fleet.hosts for gpu in host.gpus for offer in gpu.offers)
    return tuple(sorted({offer.framework for offer in offers if offer.profile == profile}))


def _in_use(fleet: Fleet, profile: str) -> int:
    return sum(
        usage.profile == profile
        for host in fleet.hosts
        for gpu in host.gpus
        for usage in gpu.usages
    )


def _memory(offer: Offer) -> int:
    return 0 if offer.framework is Framework.PASSTHROUGH else offer.memory_mib
