"""Whether there is room for each type on one host, in numbers. Necessary for a fit, always.

It is sufficient too for types of one kind, but for NVSwitch partitions and for vGPUs of one VM
that must be of one family: there, and where kinds compete, the exact fit has the last word.
"""

from __future__ import annotations

import numpy as np

from vgpumgr.model.placement import NumaSupply
from vgpumgr.placement.matrix.hosts import HostRows, cpus, memory, pages
from vgpumgr.placement.matrix.wants import Flags, Ints, Wants
from vgpumgr.placement.node_state import NodeState
from vgpumgr.placement.table.states import StateTable

_PLENTY = 1 << 40
_REMEMBERED = 4096


class Room:
    """``fits`` says which types have room on a host, ``strays`` which only across its nodes."""

    def __init__(self, hosts: HostRows, wants: Wants, table: StateTable) -> None:
        self._hosts = hosts
        self._wants = wants
        self._table = table
        self._known: dict[bytes, Flags] = {}

    def on(self, number: int, gpus: Flags) -> tuple[Flags, Flags]:
        """(fits, strays) by type; ``gpus`` says for which types all its GPUs together do."""
        hosts, wants = self._hosts, self._wants
        fits: Flags = (
            gpus & (wants.cpu <= hosts.cpu[number]) & (wants.memory <= hosts.memory[number])
        )
        nodes = hosts.nodes(number)
        if not nodes:
            return fits & ~wants.needs_nodes, np.zeros_like(fits)
        if wants.paged or wants.any_pinned:
            paged = sum((self._pages(node) for node in nodes), np.zeros_like(wants.pages))
            fits &= (wants.pinned <= sum(map(cpus, nodes))) & (wants.pages <= paged)
        near = self._near(number)
        bound = wants.needs_nodes
        if self._all_known(number):
            bound = bound | wants.has_parts
        return fits & (near | ~wants.require), wants.prefer & ~near & bound

    def parts(self, rows: Ints) -> Flags:
        """For which types GPUs in these states, in order, have room, kind by kind."""
        key = rows.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[key] = self._parts(rows)
        return found

    def _parts(self, rows: Ints) -> Flags:
        wants = self._wants
        room = np.append(self._table.room[rows, : len(self._table.parts)].sum(axis=0), _PLENTY)
        enough: Flags = np.logical_and.reduce(room[wants.columns] >= wants.needs, axis=1)
        return enough

    def _near(self, number: int) -> Flags:
        """Types that have room on one node."""
        wants, hosts = self._wants, self._hosts
        found = np.zeros(len(wants.demands), bool)
        gpus = hosts.states[number].supply.gpus
        for node in hosts.nodes(number):
            here = [n for n, gpu in enumerate(gpus) if gpu.numa_node == node.id]
            loose = [n for n, gpu in enumerate(gpus) if gpu.numa_node is None]
            parts = self.parts(np.sort(hosts.rows[number, here]))
            if loose:
                both = self.parts(np.sort(hosts.rows[number, here + loose]))
                parts = np.where(wants.require, parts, both)
            found |= parts & self._node_holds(node)
        return found

    def _node_holds(self, node: NodeState | NumaSupply) -> Flags:
        wants = self._wants
        holds: Flags = wants.memory <= memory(node)
        if wants.any_pinned:
            holds &= wants.pinned <= cpus(node)
        if wants.paged:
            holds &= wants.pages <= self._pages(node)
        return holds

    def _pages(self, node: NodeState | NumaSupply) -> Ints:
        free = dict(pages(node))
        by_size = np.array([free.get(size, 0) for size in self._wants.page_sizes], np.int64)
        found: Ints = by_size[self._wants.page_size]
        return found

    def _all_known(self, number: int) -> bool:
        gpus = self._hosts.states[number].supply.gpus
        return all(gpu.numa_node is not None for gpu in gpus)
