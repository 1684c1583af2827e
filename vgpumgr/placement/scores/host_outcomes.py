"""Outcomes of each request type on one host: its room, and what it makes of the GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.supply import NumaSupply
from vgpumgr.placement.resources.host_state import NodeState
from vgpumgr.placement.scores.fragmentation import MixRows
from vgpumgr.placement.tables.gpu_states import NOTHING, StateTable
from vgpumgr.placement.tables.host_table import LOOSE, HostRows, pages
from vgpumgr.placement.tables.request_types import Flags, Floats, Ints, RequestTypes

# It is sufficient too for types of one kind, but for NVSwitch partitions and for vGPUs of one VM
# that must be of one family: there, and where kinds compete, the exact fit has the last word.


Nodes = Sequence[NodeState | NumaSupply]

_PLENTY = 1 << 40


class HostRoom:
    """``fits`` says which types have room on a host, ``strays`` which only across its nodes."""

    def __init__(self, hosts: HostRows, wants: RequestTypes, table: StateTable) -> None:
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


# One good way, part by part; the exact fit may find another. Hard constraints are not its business.


Bundle = tuple[tuple[int, int], ...]
"""Columns of the table, each with how many parts."""

Laid = tuple[list[int], float]
"""The states of all GPUs of a host afterwards, and what was taken beyond what was asked for."""


def laid_out(gpus: Ints, wants: RequestTypes, table: StateTable, mix: MixRows) -> dict[int, Laid]:
    """By type, for types of several parts that some way of laying them out holds."""
    rows = gpus.tolist()
    known: dict[Bundle, Laid | None] = {}
    found: dict[int, Laid] = {}
    for number in wants.several.tolist():
        bundle = wants.bundles[number]
        if bundle not in known:
            known[bundle] = _laid_out(rows, bundle, table, mix)
        laid = known[bundle]
        if laid is not None:
            found[number] = laid
    return found


def _laid_out(rows: list[int], bundle: Bundle, table: StateTable, mix: MixRows) -> Laid | None:
    now, extra = list(rows), 0.0
    for column, count in bundle:
        for _ in range(count):
            best = _best(now, column, table, mix)
            if best is None:
                return None
            extra += float(table.surplus[now[best], column])
            now[best] = mix.after_one(now[best], column)
    return now, extra


def _best(rows: list[int], column: int, table: StateTable, mix: MixRows) -> int | None:
    """The GPU where one more part wastes least, the fullest of those."""
    room = table.room
    fit = {row for row in rows if room[row, column]}
    if not fit:
        return None
    table.open_rows(fit)
    if len(fit) > 1:
        mix.catch_up()
        fit = {min(fit, key=lambda row: _loss(row, column, table, mix))}
    return rows.index(fit.pop())


def _loss(row: int, column: int, table: StateTable, mix: MixRows) -> tuple[float, float, int]:
    loss, free, same = mix.loss(row, int(table.after[row, column]))
    return loss + float(table.surplus[row, column]), free, same


# Hosts whose GPUs are in the same states share this, so it is worked out once for all of them.


_REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class PartOutcomes:
    """What types of one part may do with a GPU in one state.

    ``types[n]`` makes ``after[results[n]]`` of it; no type is there twice.
    """

    types: Ints
    results: Ints
    after: Ints


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What may be done on one host, and what is useful of its GPUs afterwards.

    Choice n: type ``types[n]`` takes a GPU in state ``rows[n]`` (0: none, or several), which leads
    to ``results[n]``. ``runs`` are bounds of choices, from each to the next of which no type is
    there twice. Result 0 is the host as it is; ``free[result]`` is in thousandths of a GPU,
    ``useful[result, m]`` how much of that helps entry m of the mix, times its weight,
    ``worth[result]`` what its GPUs gain in worth, and ``idle[result]`` what is free of GPUs whose
    states have no value of their own. ``surplus[n]`` is what choice n takes beyond what was asked.
    """

    types: Ints
    rows: Ints
    results: Ints
    runs: list[int]
    free: Floats
    useful: Floats
    worth: Floats
    idle: Floats
    surplus: Floats


class OutcomeTable:
    """Works out outcomes for the types of ``wants``; remembers the ways of states."""

    def __init__(self, wants: RequestTypes, table: StateTable, mix: MixRows) -> None:
        self._wants = wants
        self._table = table
        self._mix = mix
        self._ways: dict[int, PartOutcomes] = {}
        self._none = np.zeros(len(wants.without), np.int64)

    def of(self, gpus: Ints) -> Outcomes:
        """All that may be done on a host whose GPUs are in these states, in order."""
        states = [row for row in dict.fromkeys(gpus.tolist()) if row != NOTHING]
        ways = [self.ways(row) for row in states]
        laid = laid_out(gpus, self._wants, self._table, self._mix)
        self._mix.catch_up()
        lengths = [len(each.after) for each in ways]
        starts = np.cumsum([1, *lengths])
        several = np.array(list(laid), np.int64)
        last = np.arange(starts[-1], starts[-1] + len(several))
        sizes = [len(each.types) for each in ways]
        results = (each.results + start for each, start in zip(ways, starts, strict=False))
        types = [*(each.types for each in ways), self._wants.without, several]
        runs = np.cumsum([0, *map(len, types)]).tolist()
        rows = np.zeros(runs[-1], np.int64)
        rows[: runs[len(ways)]] = np.repeat(states, sizes)
        measured = self._measured(
            gpus,
            np.repeat(np.array(states, np.int64), lengths),
            np.concatenate([np.zeros(0, np.int64), *(each.after for each in ways)]),
            np.array([now for now, _ in laid.values()], np.int64).reshape(-1, len(gpus)),
        )
        surplus = np.zeros(len(rows))
        end = runs[len(ways)]
        columns = self._wants.columns[np.concatenate([*types])[:end], 0]
        surplus[:end] = self._table.surplus[rows[:end], columns]
        surplus[len(surplus) - len(laid) :] = [extra for _, extra in laid.values()]
        return Outcomes(
            np.concatenate(types), rows, np.concatenate([*results, self._none, last]), runs,
            *measured, surplus,
        )  # fmt: skip

    def ways(self, row: int) -> PartOutcomes:
        """Those of a GPU in this state."""
        found = self._ways.get(row)
        if found is None:
            if len(self._ways) >= _REMEMBERED:
                self._ways.clear()
            found = self._ways[row] = self._derived(row)
        return found

    def _derived(self, row: int) -> PartOutcomes:
        wants, table = self._wants, self._table
        table.open_rows([row])
        self._mix.catch_up()
        columns = wants.columns[wants.single, 0]
        takes = np.flatnonzero(table.room[row, columns])
        after = self._mix.after(np.full(len(takes), row), columns[takes])
        different, results = np.unique(after, return_inverse=True)
        return PartOutcomes(wants.single[takes], results, different)

    def _measured(
        self, gpus: Ints, before: Ints, after: Ints, moved: Ints
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """``free``, ``useful``, ``worth`` and ``idle`` of the results."""
        mix = self._mix

        def change(of: Floats) -> Floats:
            parts = [np.zeros_like(of[:1]), of[after] - of[before]]
            if len(moved):
                parts.append((of[moved] - of[gpus]).sum(axis=1))
            return np.concatenate(parts)

        def summed(of: Floats) -> Floats:
            total: Floats = of[gpus].sum(axis=0) + change(of)
            return total

        room, useful = summed(mix.room), summed(mix.useful)
        weighted = np.where(room >= mix.need, useful, 0.0) * mix.weight
        return summed(mix.free), weighted, change(mix.worth), summed(mix.idle)
