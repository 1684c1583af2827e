"""Working copies of fleet, hosts and NUMA nodes, used up as VMs are placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace

from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.supply import Fleet, HostSupply, NumaSupply
from vgpumgr.model.vm import Affinity, PlacementPolicy, VmSpec
from vgpumgr.placement.resources.demand import (
    Demand,
    Labels,
    PartKind,
    demand_of,
    matches,
    selector,
)
from vgpumgr.placement.resources.gpu_state import BoardBook, GpuOccupancy
from vgpumgr.placement.resources.nic_functions import NicStock


class AffinityCounts:
    """How many VMs of a host have certain labels; ``vms`` is how many there are.

    A selector once asked for is counted on as VMs come and go.
    """

    __slots__ = ("_labelled", "_matching", "vms")

    def __init__(self, labels: Iterable[Mapping[str, str]]) -> None:
        all_of = [selector(each) for each in labels]
        self.vms = len(all_of)
        self._labelled = Counter(each for each in all_of if each)
        self._matching: dict[Labels, int] = {}

    def matching(self, wanted: Labels) -> int:
        """How many VMs have all of these labels; 0 where no label is wanted."""
        found = self._matching.get(wanted)
        if found is None:
            found = sum(
                count for labels, count in self._labelled.items() if matches(wanted, dict(labels))
            )
            self._matching[wanted] = found
        return found

    def change(self, labels: Mapping[str, str], change: int) -> None:
        """A VM with these labels has come (1), or gone (-1)."""
        self.vms += change
        if not labels:
            return
        self._labelled[selector(labels)] += change
        for wanted in self._matching:
            self._matching[wanted] += change * matches(wanted, labels)


class NodeState:
    """One NUMA node: free CPUs (lowest first), memory in MiB, huge pages by size in KiB."""

    __slots__ = ("cpus", "id", "memory_mib", "pages", "supply")

    def __init__(self, supply: NumaSupply) -> None:
        self.supply = supply
        self.id = supply.id
        self.cpus = sorted(supply.free_cpus)
        self.memory_mib = supply.free_memory_mib
        self.pages = dict(supply.free_hugepages)


def take_pages(nodes: list[NodeState], size_kib: int, count: int) -> None:
    """Use up huge pages, the first node's first."""
    for node in nodes:
        part = min(count, node.pages.get(size_kib, 0))
        if part:
            node.pages[size_kib] -= part
            count -= part


def return_pages(nodes: list[NodeState], size_kib: int, count: int) -> None:
    """The node that was filled last gets its pages back first."""
    for node in reversed(nodes):
        had = node.supply.free_hugepages.get(size_kib, 0)
        part = min(count, had - node.pages.get(size_kib, 0))
        if part:
            node.pages[size_kib] += part
            count -= part


_REMEMBERED = 4096
"""Digests of different requests that are kept."""


class HostState:
    """One host. ``version`` changes whenever something is placed on it."""

    __slots__ = (
        "_affinity_counts", "_boards", "_gpus", "_makers", "_nodes", "free_vcpus", "memory_mib",
        "name", "nics", "order", "supply", "version",
    )  # fmt: skip

    def __init__(self, supply: HostSupply, order: int, boards: BoardBook) -> None:
        self.name = supply.name
        self.order = order
        self.supply = supply
        self.version = 0
        self.free_vcpus = supply.free_vcpus
        self.memory_mib = supply.free_memory_mib
        self.nics = NicStock(supply)
        self._boards = boards
        self._affinity_counts: AffinityCounts | None = None
        self._nodes: list[NodeState] | None = None
        self._gpus: list[GpuOccupancy] | None = None
        self._makers: dict[PartKind, list[GpuOccupancy]] | None = None

    @property
    def gpus(self) -> list[GpuOccupancy]:
        """Its GPUs in the order of the supply; working copies come to be when first asked for."""
        if self._gpus is None:
            boards = self._boards
            self._gpus = [GpuOccupancy(self.name, gpu, boards) for gpu in self.supply.gpus]
        return self._gpus

    @property
    def nodes(self) -> list[NodeState]:
        """Its NUMA nodes; working copies come to be when first asked for."""
        if self._nodes is None:
            self._nodes = [NodeState(node) for node in self.supply.numa]
        return self._nodes

    @property
    def affinity_counts(self) -> AffinityCounts:
        """The VMs that are on it."""
        if self._affinity_counts is None:
            self._affinity_counts = AffinityCounts(self.supply.vm_labels)
        return self._affinity_counts

    @property
    def touched(self) -> bool:
        """Whether it may differ from its supply."""
        return self.version > 0

    def block(self, why: str) -> None:
        """It takes no VM any more; empty: it does again."""
        self.supply = replace(self.supply, blocked=why)
        self.version += 1

    def makers(self, kind: PartKind) -> list[GpuOccupancy]:
        """Its GPUs that have an offer for ``kind``, with or without room now."""
        if self._makers is None:
            self._makers = {}
        if kind not in self._makers:
            self._makers[kind] = [gpu for gpu in self.gpus if gpu.matching(kind)]
        return self._makers[kind]

    @property
    def free_units(self) -> int:
        """Slots that no vGPU takes of its GPUs that take VMs."""
        return sum(gpu.free_units for gpu in self.gpus if not gpu.supply.blocked)

    def free_pages(self, size_kib: int) -> int:
        """Free huge pages of one size on all nodes."""
        return sum(node.pages.get(size_kib, 0) for node in self.nodes)

    def free_cpus(self) -> int:
        """CPUs, on all nodes, that no VM is pinned to."""
        return sum(len(node.cpus) for node in self.nodes)

    def cpus_for(self, demand: Demand, node: NodeState | None) -> tuple[int, ...]:
        """The CPUs that the VM would be pinned to, the lowest of ``node`` if given."""
        if not demand.pin_cpus:
            return ()
        nodes = [node] if node else self.nodes
        return tuple(sorted(cpu for node in nodes for cpu in node.cpus)[: demand.vcpus])

    def take(self, demand: Demand, placed: Placed) -> None:
        """Use up vCPUs, memory, pages, CPUs, VFs of NICs and GPU parts."""
        self._use(demand, placed, 1)
        take_pages(self._bound(placed), demand.hugepage_kib, demand.pages)
        for node in self.nodes:
            node.cpus = [cpu for cpu in node.cpus if cpu not in placed.cpus]
        self.nics.change(placed.nic_functions, taken=True)
        # A part may live in the GPU instance that another part makes.
        for part in sorted(placed.assignments, key=lambda part: not part.make_instance):
            self._gpu(part).hold(part)

    def give_back(self, demand: Demand, placed: Placed) -> None:
        """The reverse of ``take``."""
        self._use(demand, placed, -1)
        return_pages(self._bound(placed), demand.hugepage_kib, demand.pages)
        for node in self.nodes:
            back = {*node.cpus, *placed.cpus}
            node.cpus = sorted(back.intersection(node.supply.free_cpus))
        self.nics.change(placed.nic_functions, taken=False)
        for part in placed.assignments:
            self._gpu(part).release(part)

    def _use(self, demand: Demand, placed: Placed, sign: int) -> None:
        self.version += 1
        self.free_vcpus -= sign * demand.vcpus
        self.memory_mib -= sign * demand.memory_mib
        if placed.numa_node is not None:
            self._bound(placed)[0].memory_mib -= sign * demand.memory_mib

    def _bound(self, placed: Placed) -> list[NodeState]:
        """The nodes that its memory and CPUs may come from."""
        return [node for node in self.nodes if placed.numa_node in (None, node.id)]

    def _gpu(self, part: Assignment) -> GpuOccupancy:
        return next(gpu for gpu in self.gpus if gpu.supply.id == part.gpu)


class FleetState:
    """Every host, in the fleet's order."""

    def __init__(self, fleet: Fleet) -> None:
        boards = BoardBook()
        self.boards = boards
        self.hosts = [HostState(host, order, boards) for order, host in enumerate(fleet.hosts)]
        self._groups: dict[Labels, int] = {}
        self._digests: dict[object, Demand] = {}
        self._foreign = frozenset[str]().union(*(host.foreign_domains for host in fleet.hosts))

    def digest(self, request: VmSpec, policy: PlacementPolicy) -> Demand:
        """The request's demand on the fleet as it is now; the same object for alike requests."""
        affinity_key = self._affinity_key(request) if _has_affinity(request.affinity) else ()
        key = (
            request.policy or policy, request.vcpus, request.memory_mib, request.gpus,
            request.numa, request.pin_cpus, request.hugepage_kib, request.nics, request.disks,
            request.cloud_init, request.tpm, request.secure_boot, affinity_key,
            request.name if request.name in self._foreign else "",
        )  # fmt: skip
        known = self._digests.get(key)
        if known is None:
            if len(self._digests) >= _REMEMBERED:
                self._digests.clear()
            known = self._digests[key] = self._digest(request, policy)
        return known

    def _digest(self, request: VmSpec, policy: PlacementPolicy) -> Demand:
        name = request.name if request.name in self._foreign else ""
        return demand_of(request, policy, founding=self._founding(request), name=name)

    def _affinity_key(self, request: VmSpec) -> Hashable:
        near = request.affinity
        labels = near.host_labels, near.together_with, near.apart_from
        return near.hosts, self._founding(request), *map(selector, labels)

    def _founding(self, request: VmSpec) -> bool:
        wanted = selector(request.affinity.together_with)
        return matches(wanted, request.labels) and not self._has_group(wanted)

    def placed(self, host: HostState, labels: Mapping[str, str]) -> None:
        """Note that a VM with ``labels`` was placed on ``host``."""
        host.affinity_counts.change(labels, 1)
        self._note(labels, 1)

    def released(self, host: HostState, labels: Mapping[str, str]) -> None:
        """Note that a VM with ``labels`` is gone from ``host``."""
        host.affinity_counts.change(labels, -1)
        self._note(labels, -1)

    def _note(self, labels: Mapping[str, str], change: int) -> None:
        for wanted in self._groups:
            self._groups[wanted] += change * matches(wanted, labels)

    def _has_group(self, wanted: Labels) -> bool:
        """Whether some host has a VM with all ``wanted`` labels."""
        if wanted not in self._groups:
            self._groups[wanted] = sum(host.affinity_counts.matching(wanted) for host in self.hosts)
        return self._groups[wanted] > 0


def _has_affinity(affinity: Affinity) -> bool:
    return bool(
        affinity.hosts or affinity.host_labels or affinity.together_with or affinity.apart_from
    )
