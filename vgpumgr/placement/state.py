"""Working copies of the supply, used up as VMs are placed. The input values are never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Fleet, GpuSupply, HostSupply, NumaSupply, Offer
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.demand import Demand, Labels, demand_of, matches, selector

_Key = TypeVar("_Key")


class GpuState:
    """One GPU: free slots (lowest first), live instances per profile, vGPUs per size class."""

    __slots__ = (
        "classes", "free", "host", "live", "made", "numa_node", "offers", "supply", "used", "whole",
    )  # fmt: skip

    def __init__(self, host: str, supply: GpuSupply) -> None:
        self.host = host
        self.supply = supply
        self.numa_node = supply.numa_node
        self.offers = {offer.profile: offer for offer in supply.offers}
        self.free = sorted(supply.free_slots)
        self.used = len(supply.usages)
        self.whole = any(u.framework is Framework.PASSTHROUGH for u in supply.usages)
        self.live: dict[str, int] = {}
        self.classes: dict[int, int] = {}
        self.made: dict[str, int] = {}
        for usage in supply.usages:
            _add(self.live, usage.profile, 1)
            if usage.framework is not Framework.PASSTHROUGH:
                _add(self.classes, usage.size_class, 1)

    @property
    def empty(self) -> bool:
        """Nothing lives on it and every slot is free."""
        return not self.used and len(self.free) == self.supply.units

    @property
    def can_go_whole(self) -> bool:
        """It could be given to a VM whole."""
        return (
            self.empty
            and not self.supply.passthrough_blocked
            and any(o.framework is Framework.PASSTHROUGH for o in self.offers.values())
        )

    def take(self, offer: Offer) -> tuple[int, ...]:
        """Use up one instance of ``offer`` and return its slots: the lowest free ones."""
        whole = offer.framework is Framework.PASSTHROUGH
        count = len(self.free) if whole else offer.units
        slots = tuple(self.free[:count])
        del self.free[:count]
        self._account(offer, 1)
        self.whole = self.whole or whole
        return slots

    def give_back(self, offer: Offer, slots: tuple[int, ...]) -> None:
        """Undo the latest ``take`` that was not undone yet."""
        self.free[:0] = slots
        self._account(offer, -1)
        if offer.framework is Framework.PASSTHROUGH:
            self.whole = False

    def _account(self, offer: Offer, change: int) -> None:
        self.used += change
        _add(self.live, offer.profile, change)
        _add(self.made, offer.type_id, change)
        if offer.framework is not Framework.PASSTHROUGH:
            _add(self.classes, offer.size_class, change)


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
        "free_vcpus", "gpus", "memory_mib", "name", "nodes", "order", "supply", "version",
        "vm_labels",
    )  # fmt: skip

    def __init__(self, supply: HostSupply, order: int) -> None:
        self.name = supply.name
        self.order = order
        self.supply = supply
        self.version = 0
        self.free_vcpus = supply.free_vcpus
        self.memory_mib = supply.free_memory_mib
        self.nodes = [NodeState(node) for node in supply.numa]
        self.gpus = [GpuState(supply.name, gpu) for gpu in supply.gpus]
        self.vm_labels = list(supply.vm_labels)

    @property
    def free_units(self) -> int:
        """Free slots of all its GPUs."""
        return sum(len(gpu.free) for gpu in self.gpus)

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
        self.hosts = [HostState(host, order) for order, host in enumerate(fleet.hosts)]
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


def _add(counts: dict[_Key, int], key: _Key, change: int) -> None:
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        del counts[key]


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
