"""Capacity per profile once empty GPUs have another layout."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vgpumgr import catalog
from vgpumgr import gpu as frameworks
from vgpumgr.engine.capacity.profile_capacity import ProfileRoom, by_profile, frameworks_of
from vgpumgr.engine.inventory.gpu_supply import gpu_supply
from vgpumgr.engine.inventory.gpu_usage import HostContents
from vgpumgr.engine.inventory.host_supply import host_contents
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.planning.automatic_layouts import partitionable
from vgpumgr.engine.planning.hypothetical_layouts import goals, partitioned
from vgpumgr.model.gpu import Framework, GpuFacts, GpuRecord, VfFacts
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, Offer
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement.fit.gpu_rules import room as room_for
from vgpumgr.placement.fleet_room import FleetRoom, Shape
from vgpumgr.placement.resources.host_state import FleetState


class RelaidGpus:
    """GPUs of one reading of the ledger, each by the first layout with which it makes any of
    ``profiles``.
    """

    def __init__(self, view: LedgerView, profiles: Collection[str]) -> None:
        self._view = view
        self._profiles = profiles
        self._known: dict[Hashable, GpuSupply] = {}

    def supply(self, gpu_id: str) -> GpuSupply:
        """An empty GPU that takes VMs, as it is where no layout helps; one object, with id and
        addresses of one of them, for GPUs with the same evidence.
        """
        gpu = self._gpus[gpu_id]
        host = self._contents[gpu.host]
        key = evidence(gpu, host)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = gpu_supply(self._relaid(gpu, host), host)
        return found

    def _relaid(self, gpu: GpuRecord, host: HostContents) -> GpuRecord:
        for goal in goals(gpu.facts):
            other = partitioned(gpu, goal, host.facts.versions.kernel)
            if other and any(o.profile in self._profiles for o in frameworks.offers(other.facts)):
                return other
        return gpu

    @cached_property
    def _gpus(self) -> dict[str, GpuRecord]:
        return {gpu.id: gpu for gpu in self._view.gpus}

    @cached_property
    def _contents(self) -> dict[str, HostContents]:
        return host_contents(self._view)


def evidence(gpu: GpuRecord, host: HostContents) -> Hashable:
    """All that decides what an empty GPU that takes VMs gives after any layout: everything but
    names, addresses and where it is attached.
    """
    facts, unread = gpu.facts, host.facts.unknown
    return (
        gpu.units,
        host.facts.versions,
        (unread, facts.device) if unread else (),
        facts.model,
        facts.vendor_device,
        facts.name,
        facts.memory_mib,
        facts.driver,
        facts.address is None,
        facts.mdev_types,
        tuple(facts.type_units.items()),
        tuple(facts.vf_types.items()),
        facts.sriov_total,
        _vfs(facts),
        facts.mig,
        facts.mixed_size,
        facts.scheduler,
        facts.health,
        facts.health_detail,
        gpu.health.state,
    )


def _vfs(facts: GpuFacts) -> Hashable:
    """Of a board of the catalogue the number tells: what they carry is the catalogue's to say."""
    listed = catalog.board(facts.model) or catalog.sriov_board(facts.model)
    return len(facts.vfs) if listed else tuple(map(_carried, facts.vfs))


def _carried(vf: VfFacts) -> Hashable:
    return vf.driver, vf.vendor, vf.mdev_types


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
            fits=room_for(state, demand.kinds[0], demand),
            type_id=offer.type_id,
            framework=str(offer.framework),
        )


def with_layouts(
    view: LedgerView,
    room: FleetRoom,
    rooms: Collection[ProfileRoom],
    profiles: Collection[str] = (),
) -> tuple[ProfileRoom, ...]:
    """``rooms``, and the profiles that no GPU makes yet, each with the capacity that a layout adds.

    Only empty, healthy GPUs count as partitioned anew, all of them that it would help. What GPUs
    are partitioned for by themselves, where hosts have automatic layouts, fits already.
    """
    found = {each.profile: each for each in rooms}
    free = frozenset(partitionable(view, room.fleet))
    unasked: dict[str, list[Places]] = {}
    for lines, wanted in _by_lines(room.gpus, profiles).items():
        relaid = RelaidGpus(view, wanted)
        other = {
            host.name: {n: room.shapes.of(relaid.supply(host.gpus[n].id)) for n in places}
            for host, places in _helped(room, lines, wanted)
        }
        shapes = dict.fromkeys(shape for changed in other.values() for shape in changed.values())
        samples, changes = room.shapes.samples, room.changes(other)
        made = by_profile(samples[shape] for shape in shapes)
        for profile in sorted(wanted & (found.keys() | made.keys())):
            now = found.get(profile) or _unmade(profile, made[profile])
            fits = now.fits + room.gained(profile, changes)
            if fits > max(now.fits, now.fits_after):
                found[profile] = replace(now, fits_after=fits, layout=lines)
            if free and profile in found:
                unasked.setdefault(profile, []).append(_among(room, other, free))
    for profile, places in unasked.items():
        gained = room.gained(profile, room.changes(_together(places)))
        found[profile] = _with_room(found[profile], gained)
    return tuple(found[profile] for profile in sorted(found))


Places = Mapping[str, Mapping[int, Shape]]
"""By host: the shapes of some of its GPUs once these are partitioned, by their places."""


def _among(room: FleetRoom, places: Places, gpus: Collection[str]) -> Places:
    """Of these GPUs alone, by id."""
    return {
        host.name: {n: at for n, at in places[host.name].items() if host.gpus[n].id in gpus}
        for host in room.fleet.hosts
        if host.name in places
    }


def _together(places: Sequence[Places]) -> Places:
    """All of them; a GPU is among one of them alone, for what it lacks follows from how it is."""
    found: dict[str, dict[int, Shape]] = {}
    for each in places:
        for host, shapes in each.items():
            found.setdefault(host, {}).update(shapes)
    return found


def _with_room(room: ProfileRoom, more: int) -> ProfileRoom:
    fits = room.fits + more
    after = room.fits_after if room.fits_after > fits else 0
    return replace(room, fits=fits, fits_after=after, layout=room.layout if after else "")


def _by_lines(gpus: Iterable[GpuSupply], profiles: Collection[str]) -> Mapping[str, set[str]]:
    """The lines of a Layout, each with the profiles that it makes and the GPU does not make now.

    Boards with plain VFs can have any number of VFs: of these only named profiles count.
    """
    found: dict[str, set[str]] = {}
    for gpu in gpus:
        if not profiles and catalog.sriov_board(gpu.model) is not None:
            continue
        made = {offer.profile for offer in gpu.offers}
        for profile, lines in gpu.could.items():
            if profile not in made and (not profiles or profile in profiles):
                found.setdefault(lines, set()).add(profile)
    return found


def _helped(
    room: FleetRoom, lines: str, profiles: Collection[str]
) -> Iterator[tuple[HostSupply, list[int]]]:
    """Hosts with the places of their empty GPUs that make any of the profiles after these lines."""
    helped = {
        shape
        for shape, gpu in enumerate(room.gpus)
        if not (gpu.blocked or gpu.usages)
        and any(gpu.could.get(each) == lines for each in profiles)
    }
    for host in room.fleet.hosts:
        places = [n for n, shape in enumerate(room.shapes_on(host.name)) if shape in helped]
        if places and not host.blocked:
            yield host, places


def _unmade(profile: str, offers: Sequence[Offer]) -> ProfileRoom:
    """The room of a profile that nothing makes yet."""
    first = offers[0]
    return ProfileRoom(
        profile=profile,
        frameworks=frameworks_of(offers),
        memory_mib=first.memory_mib,
        fits=0,
        in_use=0,
        verified=first.verified,
    )
