"""The table of hosts: what is free on each, and which of them rules and room leave to a type."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.supply import GpuSupply, HostSupply, NumaSupply
from vgpumgr.placement.fit.host_rules import free_bytes, refuse_affinity, refuse_always
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.resources.gpu_state import BoardBook
from vgpumgr.placement.resources.host_state import HostState, NodeState
from vgpumgr.placement.tables.gpu_states import StateTable
from vgpumgr.placement.tables.request_types import Flags, Ints, RequestTypes


class HostClasses:
    """Classes of hosts that score alike: those of equal ``digest``, which is asked when needed."""

    def __init__(self, count: int, digest: Callable[[int], int]) -> None:
        self._digest = digest
        self._digests = [0] * count
        self._changed = set(range(count))
        self._numbers: dict[int, int] = {}
        self._group: Ints = np.zeros(count, np.int64)

    def change(self, host: int) -> None:
        """The host is another than it was."""
        self._changed.add(host)

    def reorder(self) -> None:
        """All hosts have other numbers."""
        self._changed = set(range(len(self._digests)))

    def digest(self, host: int) -> int:
        """Equal for hosts of one class."""
        if host in self._changed:
            return self._digest(host)
        return self._digests[host]

    def group(self) -> Ints:
        """By host a number from 0 on, equal within a class."""
        if len(self._numbers) > 2 * len(self._digests):
            self._numbers.clear()
            self.reorder()
        for host in self._changed:
            digest = self._digests[host] = self._digest(host)
            self._group[host] = self._numbers.setdefault(digest, len(self._numbers))
        self._changed.clear()
        return self._group


LOOSE, NOWHERE = -1, -2
"""In ``node_of``: a GPU whose node is not known, and none, or one on no node of the host's."""


class HostRows:
    """One entry per host. ``rows`` [hosts × GPUs] are rows of the table, 0 where there is no GPU.

    ``intricate`` hosts have NUMA nodes or NVSwitch partitions, ``partitioned`` ones the latter;
    ``plain`` ones have no GPUs. ``node_memory`` and ``node_cpus``
    [hosts × nodes] are what nodes have left, -1 where there is no such node; ``node_of``
    [hosts × GPUs] is each GPU's node, as a position among its host's, LOOSE where it is not known.
    ``most_cpu`` and ``width`` are the vCPUs and the GPUs of the largest host.
    """

    def __init__(self, hosts: Sequence[HostState], table: StateTable) -> None:
        self.states = hosts
        self._table = table
        self._fresh: dict[Hashable, int] = {}
        count = len(hosts)
        self.width = max((len(host.supply.gpus) for host in hosts), default=0) or 1
        self.cpu = np.array([host.free_vcpus for host in hosts], np.int64)
        self.memory = np.array([host.memory_mib for host in hosts], np.int64)
        self.rows = np.zeros((count, self.width), np.int64)
        self.most_cpu = max([1, *(max(host.supply.vcpus, host.free_vcpus) for host in hosts)])
        for number, host in enumerate(hosts):
            gpus = host.supply.gpus
            self.rows[number, : len(gpus)] = [self._first_row(gpu) for gpu in gpus]
        self._fresh.clear()
        self.units = table.units[self.rows].sum(axis=1)
        self.plain = np.array([not host.supply.gpus for host in hosts], np.bool_)
        most = max((len(host.supply.numa) for host in hosts), default=0)
        self.node_memory = np.full((count, most), -1, np.int64)
        self.node_cpus = np.full((count, most), -1, np.int64)
        self.node_of = np.full((count, self.width if most else 0), NOWHERE, np.int8)
        for number in range(count if most else 0):
            self._place_gpus(number)
            self._read_nodes(number)
        self.intricate = np.array([_intricate(host.supply) for host in hosts], np.bool_)
        self.partitioned = np.array([bool(host.supply.partitions) for host in hosts], np.bool_)
        self.classes = HostClasses(count, self._digest)

    def reorder(self, order: Ints) -> None:
        """Put the hosts in another order: their numbers until now, from the first on."""
        self.states = [self.states[number] for number in order.tolist()]
        self.cpu, self.memory = self.cpu[order], self.memory[order]
        self.rows, self.units = self.rows[order], self.units[order]
        self.plain = self.plain[order]
        self.intricate, self.partitioned = self.intricate[order], self.partitioned[order]
        self.node_memory, self.node_cpus = self.node_memory[order], self.node_cpus[order]
        self.node_of = self.node_of[order]
        self.classes.reorder()

    def update(self, number: int) -> None:
        """Read a changed host again."""
        host = self.states[number]
        self.cpu[number] = host.free_vcpus
        self.memory[number] = host.memory_mib
        row_of = self._table.row_of
        rows = [row_of(gpu) for gpu in host.gpus]
        if rows:
            self.rows[number, : len(rows)] = rows
            self.units[number] = self._table.units[self.rows[number]].sum()
        self._read_nodes(number)
        self.classes.change(number)

    def _digest(self, number: int) -> int:
        """Equal for hosts on which every type scores alike, as far as rules for all hosts go."""
        nodes = self.nodes(number)
        rows = self.rows[number]
        seen = self.cpu[number].tobytes() + self.memory[number].tobytes()
        seen += self.plain[number].tobytes()
        if nics := self.states[number].nics.nics:
            stock = self.states[number].nics
            free = [(each.name, each.networks, len(stock.free(each))) for each in nics]
            seen += repr(free).encode()
        if not nodes:
            return _digest(seen + np.sort(rows).tobytes())
        seen += rows.tobytes() + self.node_of[number].tobytes()
        seen += self.node_memory[number].tobytes() + self.node_cpus[number].tobytes()
        paged = [pages(node) for node in nodes]
        return _digest(seen + repr(paged).encode() if any(paged) else seen)

    def nodes(self, number: int) -> Sequence[NodeState | NumaSupply]:
        """Its NUMA nodes as they are now."""
        host = self.states[number]
        return host.nodes if host.touched else host.supply.numa

    def _place_gpus(self, number: int) -> None:
        """Where GPUs are never changes; what nodes have left does."""
        supply = self.states[number].supply
        at = {node.id: position for position, node in enumerate(supply.numa)}
        for column, gpu in enumerate(supply.gpus):
            node = gpu.numa_node
            self.node_of[number, column] = LOOSE if node is None else at.get(node, NOWHERE)

    def _read_nodes(self, number: int) -> None:
        for position, node in enumerate(self.nodes(number)):
            self.node_memory[number, position] = memory(node)
            self.node_cpus[number, position] = cpus(node)

    def _first_row(self, gpu: GpuSupply) -> int:
        """GPUs with the very same offers and room are in one state: the rest of them follow."""
        key = (
            id(gpu.offers), id(gpu.free_slots), id(gpu.usages), id(gpu.instances), id(gpu.free_vfs),
            id(gpu.available) if gpu.available else 0, gpu.model, gpu.units, gpu.same_size,
            bool(gpu.blocked), bool(gpu.passthrough_blocked), gpu.gpu_slices, gpu.mixed_size,
        )  # fmt: skip
        row = self._fresh.get(key)
        if row is None:
            row = self._fresh[key] = self._table.row_of_supply(gpu)
        return row


def _intricate(supply: HostSupply) -> bool:
    """Whether more than the best GPU by itself decides what is best on the host."""
    placed = any(gpu.numa_node is not None for gpu in supply.gpus)
    return bool(supply.numa or supply.partitions or placed)


def _digest(seen: bytes) -> int:
    return int.from_bytes(blake2b(seen, digest_size=12).digest())


def host_class(supply: HostSupply) -> Hashable:
    """Equal for hosts that the rules which nothing changes cannot tell apart, but for names."""
    return (
        bool(supply.blocked), supply.foreign_domains, tuple(sorted(supply.labels.items())),
        supply.networks, supply.bridges, supply.filters, supply.features,
        tuple(sorted(supply.pools)), tuple(sorted(supply.pool_sizes.items())), supply.raw_pools,
        supply.stalled_pools,
        frozenset(supply.images.items()), bool(supply.gpus),
        tuple((nic.name, nic.networks, nic.blocked, bool(nic.vfs)) for nic in supply.nics),
    )  # fmt: skip


def cpus(node: NodeState | NumaSupply) -> int:
    """How many CPUs no VM is pinned to."""
    return len(node.cpus if isinstance(node, NodeState) else node.free_cpus)


def memory(node: NodeState | NumaSupply) -> int:
    """Its free memory in MiB."""
    return node.memory_mib if isinstance(node, NodeState) else node.free_memory_mib


def pages(node: NodeState | NumaSupply) -> list[tuple[int, int]]:
    """Its free huge pages by size in KiB."""
    free = node.pages if isinstance(node, NodeState) else node.free_hugepages
    return sorted(free.items())


_BOARDS = BoardBook()
"""These rules do not look at GPUs."""


class HostFilters:
    """The hosts that rules leave to a type: labels, networks, pools, names, and affinity to VMs."""

    def __init__(self, hosts: Sequence[HostState]) -> None:
        self._hosts = hosts
        self._number = {host.name: number for number, host in enumerate(hosts)}
        self._classes: dict[Hashable, int] = {}
        self._class = np.zeros(len(hosts), np.int64)
        self._example: list[HostState] = []
        self._free: dict[str, Ints] = {}
        for number in range(len(hosts)):
            self.renew(number)

    def renew(self, number: int) -> None:
        """The host's supply is another."""
        self._free.clear()
        supply = self._hosts[number].supply
        key = host_class(supply)
        if key not in self._classes:
            self._classes[key] = len(self._classes)
            self._example.append(HostState(supply, 0, _BOARDS))
        self._class[number] = self._classes[key]

    def reorder(self, hosts: Sequence[HostState], order: Ints) -> None:
        """Put the hosts in another order."""
        self._hosts = hosts
        self._number = {host.name: number for number, host in enumerate(hosts)}
        self._class = self._class[order]
        self._free.clear()

    def of(self, demand: Demand) -> Flags:
        """The hosts that these rules leave to the type."""
        found = self.always(demand)
        if has_affinity(demand):
            alone = np.array(
                [not host.touched and not host.supply.vm_labels for host in self._hosts], np.bool_
            )
            empty = np.flatnonzero(found & alone)
            # What holds for one host without VMs holds for all of them.
            if len(empty) and not self._affinity_allows(int(empty[0]), demand):
                found[empty] = False
            for host in np.flatnonzero(found & ~alone).tolist():
                found[host] = self._affinity_allows(host, demand)
        return found

    def always(self, demand: Demand) -> Flags:
        """The same as far as rules go which no VM that comes or goes changes."""
        classes = np.array([refuse_always(host, demand) is None for host in self._example], bool)
        found: Flags = classes[self._class]
        if demand.hosts:
            named = np.zeros(len(found), bool)
            named[[self._number[name] for name in demand.hosts if name in self._number]] = True
            found &= named
        for pool, need in demand.pool_bytes:
            found &= self._free_of(pool) >= need
        return found

    def _free_of(self, pool: str) -> Ints:
        """The free bytes of that storage pool by host."""
        if pool not in self._free:
            free = [host.supply.pools.get(pool, _PLENTY_BYTES) for host in self._hosts]
            self._free[pool] = np.array(free, np.int64)
        return self._free[pool]

    def on(self, number: int, demand: Demand) -> bool:
        """Whether these rules leave the host to the type."""
        host = self._hosts[number]
        named = not demand.hosts or host.name in demand.hosts
        return (
            named
            and refuse_always(host, demand) is None
            and free_bytes(host, demand) is None
            and self._affinity_allows(number, demand)
        )

    def _affinity_allows(self, number: int, demand: Demand) -> bool:
        """Whether the VMs on the host leave it to the type."""
        return refuse_affinity(self._hosts[number], demand) is None


def has_affinity(demand: Demand) -> bool:
    """Whether it matters to the type which VMs are on a host."""
    return bool(demand.together_with or demand.apart_from)


# It is sufficient too for types of one kind, but for NVSwitch partitions and for vGPUs of one VM
# that must be of one family: there, and where kinds compete, the exact fit has the last word.


Nodes = Sequence[NodeState | NumaSupply]

_PLENTY = 1 << 40
_PLENTY_BYTES = (1 << 63) - 1


class HostRoom:
    """``fits`` says which types have room on a host, ``off_node`` which only across its nodes."""

    def __init__(self, hosts: HostRows, request_types: RequestTypes, table: StateTable) -> None:
        self._hosts = hosts
        self._request_types = request_types
        self._table = table

    def on(self, number: int) -> tuple[Flags, Flags]:
        """(fits, strays) by type."""
        hosts, request_types = self._hosts, self._request_types
        room = self._table.room[hosts.rows[number], : len(self._table.parts)]
        fits = (request_types.cpu <= hosts.cpu[number]) & (
            request_types.memory <= hosts.memory[number]
        )
        fits &= self._enough(room.sum(axis=0))
        nodes = hosts.nodes(number)
        if not nodes:
            return fits & ~request_types.needs_nodes, np.zeros_like(fits)
        if request_types.paged or request_types.any_pinned:
            paged = sum((self._pages(node) for node in nodes), np.zeros_like(request_types.pages))
            fits &= (request_types.pinned <= hosts.node_cpus[number].clip(0).sum()) & (
                request_types.pages <= paged
            )
        near = self._near(number, nodes, room)
        bound = request_types.needs_nodes
        if (hosts.node_of[number] != LOOSE).all():
            bound = bound | request_types.has_parts
        return fits & (near | ~request_types.require), request_types.prefer & ~near & bound

    def on_many(self, kind: int, hosts: Ints) -> tuple[Flags, Flags]:
        """(fits, strays) of one type by host; it wants no pages, and parts of one kind at most."""
        rows, request_types = self._hosts, self._request_types
        room = self._table.room[rows.rows[hosts], request_types.columns[kind, 0]]
        if not request_types.has_parts[kind]:
            room = np.zeros_like(room)
        fits: Flags = room.sum(axis=1) >= request_types.needs[kind, 0]
        fits &= (request_types.cpu[kind] <= rows.cpu[hosts]) & (
            request_types.memory[kind] <= rows.memory[hosts]
        )
        if not rows.node_of.size:
            return fits & ~request_types.needs_nodes[kind], np.zeros_like(fits)
        has_nodes = (rows.node_memory[hosts] >= 0).any(axis=1)
        fits &= ~has_nodes | (
            request_types.pinned[kind] <= rows.node_cpus[hosts].clip(0).sum(axis=1)
        )
        near = self._near_many(kind, hosts, room)
        fits &= np.where(
            has_nodes, near | ~request_types.require[kind], ~request_types.needs_nodes[kind]
        )
        bound = request_types.needs_nodes[kind] | np.zeros_like(fits)
        if request_types.has_parts[kind]:
            bound |= (rows.node_of[hosts] != LOOSE).all(axis=1)
        return fits, request_types.prefer[kind] & has_nodes & ~near & bound

    def _near_many(self, kind: int, hosts: Ints, room: Ints) -> Flags:
        """Hosts with room on one node; ``room`` is by GPU."""
        rows, request_types = self._hosts, self._request_types
        node_of, found = rows.node_of[hosts], np.zeros(len(hosts), np.bool_)
        for node in range(rows.node_memory.shape[1]):
            here = node_of == node
            if not request_types.require[kind]:
                here |= node_of == LOOSE
            holds = request_types.memory[kind] <= rows.node_memory[hosts, node]
            holds &= request_types.pinned[kind] <= rows.node_cpus[hosts, node]
            found |= holds & ((room * here).sum(axis=1) >= request_types.needs[kind, 0])
        return found

    def _enough(self, room: Ints) -> Flags:
        """Types whose parts have room, kind by kind, on GPUs with so much [columns]."""
        request_types = self._request_types
        with_always = np.append(room, _PLENTY)
        if request_types.columns.shape[1] == 1:
            return with_always[request_types.columns[:, 0]] >= request_types.needs[:, 0]
        enough: Flags = np.logical_and.reduce(
            with_always[request_types.columns] >= request_types.needs, axis=1
        )
        return enough

    def _near(self, number: int, nodes: Nodes, room: NDArray[np.int32]) -> Flags:
        """Types that have room on one node; ``room`` is [GPUs × columns]."""
        found = np.zeros(len(self._request_types.demands), np.bool_)
        node_of = self._hosts.node_of[number]
        loose = node_of == LOOSE
        for at, node in enumerate(nodes):
            here = node_of == at
            parts = self._enough(room[here].sum(axis=0))
            if loose.any():
                all_of = self._enough(room[here | loose].sum(axis=0))
                parts = np.where(self._request_types.require, parts, all_of)
            found |= parts & self._node_holds(number, at, node)
        return found

    def _node_holds(self, number: int, at: int, node: NodeState | NumaSupply) -> Flags:
        request_types = self._request_types
        holds: Flags = request_types.memory <= self._hosts.node_memory[number, at]
        if request_types.any_pinned:
            holds &= request_types.pinned <= self._hosts.node_cpus[number, at]
        if request_types.paged:
            holds &= request_types.pages <= self._pages(node)
        return holds

    def _pages(self, node: NodeState | NumaSupply) -> Ints:
        free = dict(pages(node))
        by_size = np.array([free.get(size, 0) for size in self._request_types.page_sizes], np.int64)
        found: Ints = by_size[self._request_types.page_size]
        return found
