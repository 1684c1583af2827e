"""Working copies of hosts and fleet, used up as VMs are placed; the input never changes."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.model.placement import Fleet, HostSupply, NumaSupply
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.demand import Demand, Kind, Labels, demand_of, matches, selector
from vgpumgr.placement.geometry import ShapeBook
from vgpumgr.placement.gpu_state import GpuState


class NodeState:
    """One NUMA node: free CPUs (lowest first), memory in MiB, huge pages by size in KiB."""

    __slots__ = ("cpus", "id", "memory_mib", "pages")

    def __init__(self, supply: NumaSupply) -> None:
        self.id = supply.id
        self.cpus = sorted(supply.free_cpus)
        self.memory_mib = supply.free_memory_mib
        self.pages = dict(supply.free_hugepages)


class HostState:
    """One host. ``version`` changes whenever something is placed on it."""

    __slots__ = (
        "_makers", "free_vcpus", "gpus", "memory_mib", "name", "nodes", "order", "supply",
        "version", "vm_labels",
    )  # fmt: skip

    def __init__(self, supply: HostSupply, order: int, shapes: ShapeBook) -> None:
        self.name = supply.name
        self.order = order
        self.supply = supply
        self.version = 0
        self.free_vcpus = supply.free_vcpus
        self.memory_mib = supply.free_memory_mib
        self.nodes = [NodeState(node) for node in supply.numa]
        self.gpus = [GpuState(supply.name, gpu, shapes) for gpu in supply.gpus]
        self.vm_labels = list(supply.vm_labels)
        self._makers: dict[Kind, list[GpuState]] = {}

    def makers(self, kind: Kind) -> list[GpuState]:
        """Its GPUs that have an offer for ``kind``, with or without room now."""
        if kind not in self._makers:
            self._makers[kind] = [gpu for gpu in self.gpus if gpu.matching(kind)]
        return self._makers[kind]

    @property
    def free_units(self) -> int:
        """Slots of all its GPUs that no vGPU takes."""
        return sum(gpu.free_units for gpu in self.gpus)

    def free_pages(self, size_kib: int) -> int:
        """Free huge pages of one size on all nodes."""
        return sum(node.pages.get(size_kib, 0) for node in self.nodes)

    def free_cpus(self) -> int:
        """CPUs, on all nodes, that no VM is pinned to."""
        return sum(len(node.cpus) for node in self.nodes)

    def take(self, demand: Demand, node: NodeState | None) -> tuple[int, ...]:
        """Use up vCPUs, memory, pages and CPUs, of ``node`` if given; returns the CPUs to pin."""
        self.version += 1
        self.free_vcpus -= demand.vcpus
        self.memory_mib -= demand.memory_mib
        nodes = [node] if node else self.nodes
        if node:
            node.memory_mib -= demand.memory_mib
        _take_pages(nodes, demand.hugepage_kib, demand.pages)
        return _take_cpus(nodes, demand.vcpus) if demand.pin_cpus else ()


class FleetState:
    """Every host, in the fleet's order, and the log of hosts that changed (their ``order``)."""

    def __init__(self, fleet: Fleet) -> None:
        shapes = ShapeBook()
        self.hosts = [HostState(host, order, shapes) for order, host in enumerate(fleet.hosts)]
        self.changes: list[int] = []
        self._groups: dict[Labels, bool] = {}
        self._foreign = frozenset[str]().union(*(host.foreign_domains for host in fleet.hosts))

    def digest(self, request: VmSpec, policy: PlacementPolicy) -> Demand:
        """The request's demand on the fleet as it is now."""
        wanted = selector(request.affinity.together_with)
        founding = matches(wanted, request.labels) and not self._has_group(wanted)
        name = request.name if request.name in self._foreign else ""
        return demand_of(request, policy, founding=founding, name=name)

    def changed(self, host: HostState, labels: Mapping[str, str]) -> None:
        """Note that a VM with ``labels`` was placed on ``host``."""
        self.changes.append(host.order)
        host.vm_labels.append(labels)
        for wanted, exists in self._groups.items():
            self._groups[wanted] = exists or matches(wanted, labels)

    def _has_group(self, wanted: Labels) -> bool:
        """Whether some host has a VM with all ``wanted`` labels."""
        if wanted not in self._groups:
            self._groups[wanted] = any(
                matches(wanted, labels) for host in self.hosts for labels in host.vm_labels
            )
        return self._groups[wanted]


def _take_pages(nodes: list[NodeState], size_kib: int, count: int) -> None:
    for node in nodes:
        part = min(count, node.pages.get(size_kib, 0))
        if part:
            node.pages[size_kib] -= part
            count -= part


def _take_cpus(nodes: list[NodeState], count: int) -> tuple[int, ...]:
    cpus = sorted(cpu for node in nodes for cpu in node.cpus)[:count]
    taken = set(cpus)
    for node in nodes:
        node.cpus = [cpu for cpu in node.cpus if cpu not in taken]
    return tuple(cpus)
