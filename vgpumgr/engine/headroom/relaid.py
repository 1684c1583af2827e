"""How many more of each profile fit once empty GPUs are partitioned otherwise. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from vgpumgr import gpu as frameworks
from vgpumgr.engine.headroom.capacity import ProfileRoom, one_of
from vgpumgr.engine.supply import build_fleet
from vgpumgr.engine.view import LedgerView
from vgpumgr.engine.whatif.partitioned import goals, partitioned
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.placement import Fleet
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement import headroom


def with_layouts(
    view: LedgerView,
    fleet: Fleet,
    shape: VmSpec,
    rooms: Collection[ProfileRoom],
    profiles: Collection[str] = (),
) -> tuple[ProfileRoom, ...]:
    """``rooms``, and those of profiles that no GPU makes yet, each with what a layout would add.

    Empty, healthy GPUs alone are taken to be partitioned anew: all that it would help.
    """
    known = {room.profile: room for room in rooms}
    found = dict(known)
    for lines, wanted in _by_lines(fleet, profiles).items():
        other = _relaid(view, fleet, lines, wanted)
        for profile in sorted(wanted):
            fits = headroom(other, one_of(shape, profile))
            room = found.get(profile) or _unmade(other, profile)
            if room is not None and fits > max(room.fits, room.fits_after):
                found[profile] = replace(room, fits_after=fits, layout=lines)
    return tuple(found[profile] for profile in sorted(found))


def _by_lines(fleet: Fleet, profiles: Collection[str]) -> Mapping[str, set[str]]:
    """The lines of a Layout, each with the profiles that it makes where nothing does now."""
    found: dict[str, set[str]] = {}
    for host in fleet.hosts:
        for gpu in host.gpus:
            made = {offer.profile for offer in gpu.offers}
            for profile, lines in gpu.could.items():
                if profile not in made and (not profiles or profile in profiles):
                    found.setdefault(lines, set()).add(profile)
    return found


def _relaid(view: LedgerView, fleet: Fleet, lines: str, profiles: Collection[str]) -> Fleet:
    """The fleet with every empty GPU that makes any of them after those lines."""
    helped = {
        gpu.id
        for host in fleet.hosts
        for gpu in host.gpus
        if not (host.blocked or gpu.blocked or gpu.usages)
        and any(gpu.could.get(each) == lines for each in profiles)
    }
    kernels = {h.name: h.facts.versions.kernel for h in view.hosts if h.facts is not None}
    gpus = tuple(
        _as(gpu, profiles, kernels.get(gpu.host, ""))
        if gpu.id in helped and gpu.state is GpuState.HEALTHY
        else gpu
        for gpu in view.gpus
    )
    return build_fleet(replace(view, gpus=gpus))


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
