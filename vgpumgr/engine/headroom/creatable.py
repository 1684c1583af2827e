"""What one GPU could make now, type by type, and what it could make after a layout. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Fleet, GpuSupply, HostSupply
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement.room import room
from vgpumgr.placement.state import FleetState

_POLICY = PlacementPolicy.BREADTH_FIRST
"""How many there is room for does not depend on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Creatable:
    """``fits`` more of a profile, by slots, VFs and the driver's own count.

    ``layout`` are the lines of a Layout that the GPU must have first; empty: none. ``type_id`` and
    ``framework`` are empty where it takes a layout.
    """

    profile: str
    fits: int
    type_id: str = ""
    framework: str = ""
    layout: str = ""


def creatable(gpu: GpuSupply) -> tuple[Creatable, ...]:
    """Every type of the GPU, whole GPUs aside: those it makes as it is, then the others."""
    made = tuple(_as_it_is(gpu))
    known = {each.profile for each in made}
    after = (
        Creatable(profile=profile, fits=0, layout=lines)
        for profile, lines in gpu.could.items()
        if profile not in known
    )
    return (*made, *after)


def _as_it_is(gpu: GpuSupply) -> Iterator[Creatable]:
    alone = HostSupply(name="", free_vcpus=1, free_memory_mib=1, numa=(), gpus=(gpu,))
    fleet = FleetState(Fleet(hosts=(alone,)))
    [state] = fleet.hosts[0].gpus
    for offer in gpu.offers:
        if offer.framework is Framework.PASSTHROUGH:
            continue
        part = GpuRequest(profile=offer.profile, framework=offer.framework)
        one = VmSpec(name="", vcpus=1, memory_mib=1, gpus=(part,))
        demand = fleet.digest(one, _POLICY)
        yield Creatable(
            profile=offer.profile,
            fits=room(state, demand.kinds[0], demand),
            type_id=offer.type_id,
            framework=str(offer.framework),
        )
