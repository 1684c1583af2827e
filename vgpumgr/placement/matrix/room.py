"""Whether there is room for each type on one host, in numbers. Necessary for a fit, always.

It is sufficient too for types of one kind, but for NVSwitch partitions and for vGPUs of one VM
that must be of one family: there, and where kinds compete, the exact fit has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.placement import NumaSupply
from vgpumgr.placement.matrix.hosts import LOOSE, HostRows, pages
from vgpumgr.placement.matrix.wants import Flags, Ints, Wants
from vgpumgr.placement.node_state import NodeState
from vgpumgr.placement.table.states import StateTable

Nodes = Sequence[NodeState | NumaSupply]

_PLENTY = 1 << 40


class Room:
    """``fits`` says which types have room on a host, ``strays`` which only across its nodes."""

    def __init__(self, hosts: HostRows, wants: Wants, table: StateTable) -> None:
        self._hosts = hosts
        self._wants = wants
        self._table = table

    def on(self, number: int) -> tuple[Flags, Flags]:
        """(fits, strays) by type."""
        hosts, wants = self._hosts, self._wants
        room = self._table.room[hosts.rows[number], : len(self._table.parts)]
        fits = (wants.cpu <= hosts.cpu[number]) & (wants.memory <= hosts.memory[number])
        fits &= self._enough(room.sum(axis=0))
        nodes = hosts.nodes(number)
        if not nodes:
            return fits & ~wants.needs_nodes, np.zeros_like(fits)
        if wants.paged or wants.any_pinned:
            paged = sum((self._pages(node) for node in nodes), np.zeros_like(wants.pages))
            fits &= (wants.pinned <= hosts.node_cpus[number].clip(0).sum()) & (wants.pages <= paged)
        near = self._near(number, nodes, room)
        bound = wants.needs_nodes
        if (hosts.node_of[number] != LOOSE).all():
            bound = bound | wants.has_parts
        return fits & (near | ~wants.require), wants.prefer & ~near & bound

    def on_many(self, kind: int, hosts: Ints) -> tuple[Flags, Flags]:
        """(fits, strays) of one type by host; it wants no pages, and parts of one kind at most."""
        rows, wants = self._hosts, self._wants
        room = self._table.room[rows.rows[hosts], wants.columns[kind, 0]]
        if not wants.has_parts[kind]:
            room = np.zeros_like(room)
        fits: Flags = room.sum(axis=1) >= wants.needs[kind, 0]
        fits &= (wants.cpu[kind] <= rows.cpu[hosts]) & (wants.memory[kind] <= rows.memory[hosts])
        if not rows.node_of.size:
            return fits & ~wants.needs_nodes[kind], np.zeros_like(fits)
        has_nodes = (rows.node_memory[hosts] >= 0).any(axis=1)
        fits &= ~has_nodes | (wants.pinned[kind] <= rows.node_cpus[hosts].clip(0).sum(axis=1))
        near = self._near_many(kind, hosts, room)
        fits &= np.where(has_nodes, near | ~wants.require[kind], ~wants.needs_nodes[kind])
        bound = wants.needs_nodes[kind] | np.zeros_like(fits)
        if wants.has_parts[kind]:
            bound |= (rows.node_of[hosts] != LOOSE).all(axis=1)
        return fits, wants.prefer[kind] & has_nodes & ~near & bound

    def _near_many(self, kind: int, hosts: Ints, room: Ints) -> Flags:
        """Hosts with room on one node; ``room`` is by GPU."""
        rows, wants = self._hosts, self._wants
        node_of, found = rows.node_of[hosts], np.zeros(len(hosts), np.bool_)
        for node in range(rows.node_memory.shape[1]):
            here = node_of == node
            if not wants.require[kind]:
                here |= node_of == LOOSE
            holds = wants.memory[kind] <= rows.node_memory[hosts, node]
            holds &= wants.pinned[kind] <= rows.node_cpus[hosts, node]
            found |= holds & ((room * here).sum(axis=1) >= wants.needs[kind, 0])
        return found

    def _enough(self, room: Ints) -> Flags:
        """Types whose parts have room, kind by kind, on GPUs with so much [columns]."""
        wants = self._wants
        with_always = np.append(room, _PLENTY)
        if wants.columns.shape[1] == 1:
            return with_always[wants.columns[:, 0]] >= wants.needs[:, 0]
        enough: Flags = np.logical_and.reduce(with_always[wants.columns] >= wants.needs, axis=1)
        return enough

    def _near(self, number: int, nodes: Nodes, room: NDArray[np.int32]) -> Flags:
        """Types that have room on one node; ``room`` is [GPUs × columns]."""
        found = np.zeros(len(self._wants.demands), np.bool_)
        node_of = self._hosts.node_of[number]
        loose = node_of == LOOSE
        for at, node in enumerate(nodes):
            here = node_of == at
            parts = self._enough(room[here].sum(axis=0))
            if loose.any():
                all_of = self._enough(room[here | loose].sum(axis=0))
                parts = np.where(self._wants.require, parts, all_of)
            found |= parts & self._node_holds(number, at, node)
        return found

    def _node_holds(self, number: int, at: int, node: NodeState | NumaSupply) -> Flags:
        wants = self._wants
        holds: Flags = wants.memory <= self._hosts.node_memory[number, at]
        if wants.any_pinned:
            holds &= wants.pinned <= self._hosts.node_cpus[number, at]
        if wants.paged:
            holds &= wants.pages <= self._pages(node)
        return holds

    def _pages(self, node: NodeState | NumaSupply) -> Ints:
        free = dict(pages(node))
        by_size = np.array([free.get(size, 0) for size in self._wants.page_sizes], np.int64)
        found: Ints = by_size[self._wants.page_size]
        return found
