"""Room of a fleet for every profile: GPUs of one shape and hosts of one class are asked once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply
from vgpumgr.model.vm import GpuRequest, PlacementPolicy, VmSpec
from vgpumgr.placement.fit.gpu_rules import room
from vgpumgr.placement.fit.host_rules import refuse_host
from vgpumgr.placement.headroom import headroom, most_vms
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.resources.gpu_state import BoardBook, GpuOccupancy
from vgpumgr.placement.resources.host_state import FleetState, HostState

# What a GPU has room for follows from its shape, all of its supply but names, and a host has room
# for what its GPUs take, as far as vCPUs and memory go. A fleet of thousands has few shapes.

LIMIT = 100_000
"""More VMs are not counted."""

_POLICY = PlacementPolicy.BREADTH_FIRST
"""How many VMs with one GPU part fit does not depend on it."""

Shape = int
"""A number for GPUs that take the same, now and later."""


class ShapeRooms(dict[Shape, int]):
    """How many parts of one kind go on a GPU of each shape, asked at the first use."""

    def __init__(self, samples: Sequence[GpuOccupancy], demand: Demand) -> None:
        super().__init__()
        self._samples = samples
        self._demand = demand

    def __missing__(self, shape: Shape) -> int:
        kind = self._demand.kinds[0]
        found = self[shape] = room(self._samples[shape], kind, self._demand)
        return found


class GpuShapes:
    """The shapes of GPUs, numbered as they come."""

    def __init__(self, boards: BoardBook) -> None:
        self._boards = boards
        self._numbers: dict[Hashable, Shape] = {}
        self._samples: list[GpuOccupancy] = []

    def of(self, gpu: GpuSupply) -> Shape:
        """The shape of this GPU."""
        key = self._key(gpu)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._samples)
            self._samples.append(GpuOccupancy("", gpu, self._boards))
        return found

    @property
    def samples(self) -> tuple[GpuSupply, ...]:
        """The first GPU of each shape, by shape."""
        return tuple(each.supply for each in self._samples)

    def rooms(self, demand: Demand) -> ShapeRooms:
        """How many parts of the demand's one kind go on a GPU, by shape."""
        return ShapeRooms(self._samples, demand)

    def _key(self, gpu: GpuSupply) -> Hashable:
        """All that decides what goes on the GPU: everything but ids, addresses and holders."""
        return (
            self._boards.of(gpu).number,
            gpu.free_slots,
            tuple((each.profile, each.size_class, each.framework) for each in gpu.usages),
            gpu.same_size,
            tuple(gpu.available.items()),
            bool(gpu.blocked),
            bool(gpu.passthrough_blocked),
            gpu.instances,
            gpu.gpu_slices,
            len(gpu.free_vfs),
            tuple(gpu.could.items()),
        )


class HostClass(NamedTuple):
    """Hosts that have room for the same: ``most`` VMs by vCPUs and memory, and
    the shapes of their GPUs. ``wiring`` is how whole GPUs hang together, None where they do not.
    """

    most: int
    gpus: tuple[Shape, ...]
    wiring: Hashable = None


HostChanges = Counter[tuple[HostClass, HostClass]]
"""How many hosts of one class would be of the other."""


class FleetRoom:
    """How many more VMs with the vCPUs and memory of ``shape`` and one part of a profile fit.

    The same as ``headroom`` says of each profile by itself.
    """

    def __init__(self, fleet: Fleet, shape: VmSpec) -> None:
        self.fleet = fleet
        self._shape = shape
        self._state = FleetState(fleet)
        self._by_profile: dict[str, ShapeRooms] = {}
        self._tried: dict[tuple[HostClass, str], int] = {}
        self.shapes = GpuShapes(self._state.boards)
        self._hosts = {host.name: self._class_of(host) for host in self._state.hosts}
        self._samples = {self._hosts[host.name]: host.supply for host in self._state.hosts}
        self._counts = Counter(self._hosts.values())
        self.gpus = self.shapes.samples
        """The first GPU of each shape, by shape: in the fleet's order."""

    def shapes_on(self, host: str) -> tuple[Shape, ...]:
        """Of the GPUs of a host, in their order."""
        return self._hosts[host].gpus

    @property
    def gpus_by_last(self) -> tuple[GpuSupply, ...]:
        """``gpus`` in the order of the last GPU of each shape."""
        last = dict.fromkeys(
            shape
            for host in reversed(self.fleet.hosts)
            for shape in reversed(self.shapes_on(host.name))
        )
        return tuple(self.gpus[shape] for shape in reversed(last))

    def fits(self, profile: str) -> int:
        """With one part of this profile, ``LIMIT`` at most."""
        return min(LIMIT, sum(n * self._on(each, profile) for each, n in self._counts.items()))

    def changes(self, changed: Mapping[str, Mapping[int, Shape]]) -> HostChanges:
        """Hosts, by name, of which GPUs, by their place, have other shapes: counted by class."""
        pairs = ((self._hosts[name], shapes) for name, shapes in changed.items())
        return Counter((now, now._replace(gpus=_with(now.gpus, shapes))) for now, shapes in pairs)

    def gained(self, profile: str, changes: HostChanges) -> int:
        """How many more fit after these changes with a part of a profile, which is no whole GPU."""
        after = sum(n * self._on(other, profile) for (_, other), n in changes.items())
        before = sum(n * self._on(now, profile) for (now, _), n in changes.items())
        return min(LIMIT, after) - min(LIMIT, before)

    def _on(self, hosts: HostClass, profile: str) -> int:
        """On each of these hosts."""
        if not hosts.most:
            return 0
        if hosts.wiring is not None and profile == PASSTHROUGH_PROFILE:
            return self._by_placing(hosts, profile)
        return min(hosts.most, sum(map(self._rooms(profile).__getitem__, hosts.gpus)))

    def _rooms(self, profile: str) -> ShapeRooms:
        found = self._by_profile.get(profile)
        if found is None:
            demand = self._state.digest(self._one(profile), _POLICY)
            found = self._by_profile[profile] = self.shapes.rooms(demand)
        return found

    def _by_placing(self, hosts: HostClass, profile: str) -> int:
        key = hosts, profile
        found = self._tried.get(key)
        if found is None:
            alone = Fleet(hosts=(self._samples[hosts],))
            found = self._tried[key] = headroom(alone, self._one(profile), LIMIT)
        return found

    def _class_of(self, host: HostState) -> HostClass:
        gpus = tuple(map(self.shapes.of, host.supply.gpus))
        demand = self._state.digest(self._one(PASSTHROUGH_PROFILE), _POLICY)
        most = 0 if refuse_host(host, demand) is not None else most_vms(host, demand, LIMIT)
        return HostClass(most, gpus, _wiring(host.supply))

    def _one(self, profile: str) -> VmSpec:
        vcpus, memory_mib = self._shape.vcpus, self._shape.memory_mib
        part = GpuRequest(profile=profile)
        return VmSpec(name="", vcpus=vcpus, memory_mib=memory_mib, gpus=(part,))


def _with(gpus: tuple[Shape, ...], changed: Mapping[int, Shape]) -> tuple[Shape, ...]:
    return tuple(changed.get(place, shape) for place, shape in enumerate(gpus))


def _wiring(host: HostSupply) -> Hashable:
    """What decides, GPUs apart, which whole GPUs a VM gets."""
    if not host.partitions:
        return None
    places = {gpu.id: place for place, gpu in enumerate(host.gpus)}
    return (
        tuple((each.id, frozenset(places[gpu] for gpu in each.gpus)) for each in host.partitions),
        tuple(gpu.numa_node for gpu in host.gpus),
        tuple((node.id, node.free_memory_mib) for node in host.numa),
        host.free_vcpus,
        host.free_memory_mib,
    )
