"""Capacity per profile once empty GPUs have another layout."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from vgpumgr import catalog
from vgpumgr import gpu as frameworks
from vgpumgr.engine.capacity.profile_capacity import ProfileRoom, one_of
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.whatif.hypothetical_layouts import goals, partitioned
from vgpumgr.model.gpu import Framework, GpuRecord, GpuState
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement import headroom
from vgpumgr.placement.fit.gpu_rules import room
from vgpumgr.placement.resources.host_state import FleetState

_POLICY = PlacementPolicy.BREADTH_FIRST
"""How many there is room for does not depend on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableProfile:
    """``fits`` more of a profile, by slots, VFs and the driver's own count.

    ``layout`` are the lines of a Layout that the GPU must have first; empty: none. ``type_id`` and
    ``framework`` are empty where it takes a layout.
    """

    profile: str
    fits: int
    type_id: str = ""
    framework: str = ""
    layout: str = ""


def creatable(gpu: GpuSupply) -> tuple[CreatableProfile, ...]:
    """Every type of the GPU, whole GPUs aside: types that it makes as it is, then the others."""
    made = tuple(_as_it_is(gpu))
    known = {each.profile for each in made}
    after = (
        CreatableProfile(profile=profile, fits=0, layout=lines)
        for profile, lines in gpu.could.items()
        if profile not in known
    )
    return (*made, *after)


def _as_it_is(gpu: GpuSupply) -> Iterator[CreatableProfile]:
    alone = HostSupply(name="", free_vcpus=1, free_memory_mib=1, numa=(), gpus=(gpu,))
    fleet = FleetState(Fleet(hosts=(alone,)))
    [state] = fleet.hosts[0].gpus
    for offer in gpu.offers:
        if offer.framework is Framework.PASSTHROUGH:
            continue
        part = GpuRequest(profile=offer.profile, framework=offer.framework)
        one = VmSpec(name="", vcpus=1, memory_mib=1, gpus=(part,))
        demand = fleet.digest(one, _POLICY)
        yield CreatableProfile(
            profile=offer.profile,
            fits=room(state, demand.kinds[0], demand),
            type_id=offer.type_id,
            framework=str(offer.framework),
        )


def with_layouts(
    view: LedgerView,
    fleet: Fleet,
    shape: VmSpec,
    rooms: Collection[ProfileRoom],
    profiles: Collection[str] = (),
) -> tuple[ProfileRoom, ...]:
    """``rooms``, and the profiles that no GPU makes yet, each with the capacity that a layout adds.

    Only empty, healthy GPUs count as partitioned anew, all of them that it would help.
    """
    found = {room.profile: room for room in rooms}
    for lines, wanted in _by_lines(fleet, profiles).items():
        helped = _helped(fleet, lines, wanted)
        hosts = {host for host, _ in helped}
        now = Fleet(hosts=tuple(host for host in fleet.hosts if host.name in hosts))
        other = _relaid(view, hosts, {gpu for _, gpu in helped}, wanted)
        for profile in sorted(wanted):
            room = found.get(profile) or _unmade(other, profile)
            if room is None:
                continue
            one = one_of(shape, profile)
            fits = room.fits + headroom(other, one) - headroom(now, one)
            if fits > max(room.fits, room.fits_after):
                found[profile] = replace(room, fits_after=fits, layout=lines)
    return tuple(found[profile] for profile in sorted(found))


def _by_lines(fleet: Fleet, profiles: Collection[str]) -> Mapping[str, set[str]]:
    """The lines of a Layout, each with the profiles that it makes and the GPU does not make now.

    Boards with plain VFs can have any number of VFs: of these only named profiles count.
    """
    found: dict[str, set[str]] = {}
    for host in fleet.hosts:
        for gpu in host.gpus:
            if not profiles and catalog.sriov_board(gpu.model) is not None:
                continue
            made = {offer.profile for offer in gpu.offers}
            for profile, lines in gpu.could.items():
                if profile not in made and (not profiles or profile in profiles):
                    found.setdefault(lines, set()).add(profile)
    return found


def _helped(fleet: Fleet, lines: str, profiles: Collection[str]) -> set[tuple[str, str]]:
    """Host and id of the empty GPUs that make any of the profiles after these lines."""
    return {
        (host.name, gpu.id)
        for host in fleet.hosts
        for gpu in host.gpus
        if not (host.blocked or gpu.blocked or gpu.usages)
        and any(gpu.could.get(each) == lines for each in profiles)
    }


def _relaid(
    view: LedgerView, hosts: Collection[str], helped: Collection[str], profiles: Collection[str]
) -> Fleet:
    """The hosts with some of their GPUs partitioned anew."""
    records = tuple(host for host in view.hosts if host.name in hosts)
    kernels = {each.name: each.facts.versions.kernel for each in records if each.facts is not None}
    gpus = tuple(
        _as(gpu, profiles, kernels.get(gpu.host, ""))
        if gpu.id in helped and gpu.state is GpuState.HEALTHY
        else gpu
        for gpu in view.gpus
        if gpu.host in hosts
    )
    return build_fleet(replace(view, hosts=records, gpus=gpus))


def _as(gpu: GpuRecord, profiles: Collection[str], kernel: str) -> GpuRecord:
    """By the first layout with which it makes one of them."""
    for goal in goals(gpu.facts):
        other = partitioned(gpu, goal, kernel)
        if other and any(each.profile in profiles for each in frameworks.offers(other.facts)):
            return other
    return gpu


def _unmade(fleet: Fleet, profile: str) -> ProfileRoom | None:
    """The room of a profile that nothing makes yet; None where nothing would."""
    offers = [
        offer
        for host in fleet.hosts
        for gpu in host.gpus
        for offer in gpu.offers
        if offer.profile == profile
    ]
    if not offers:
        return None
    return ProfileRoom(
        profile=profile,
        frameworks=tuple(sorted({offer.framework for offer in offers})),
        memory_mib=offers[0].memory_mib,
        fits=0,
        in_use=0,
        verified=offers[0].verified,
    )
