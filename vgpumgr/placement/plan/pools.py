"""The fleet as a plan sees it: pools of hosts of a class, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.placement import Fleet
from vgpumgr.placement.matrix.hosts import HostRows
from vgpumgr.placement.matrix.standing import Standing
from vgpumgr.placement.matrix.wants import parts_of
from vgpumgr.placement.plan.classes import classes_of
from vgpumgr.placement.plan.groups import Group
from vgpumgr.placement.state import FleetState
from vgpumgr.placement.table.states import NOTHING, StateTable

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pool:
    """What hosts of a class have free in all. ``gpus`` counts GPUs by row of the table."""

    hosts: int
    vcpus: float
    memory_mib: float
    gpus: dict[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Pools:
    """``may`` [pools × groups]: some host of the pool takes a request of the group.

    ``columns`` are by group the columns of the table that it takes, with how many.
    """

    table: StateTable
    class_of: dict[str, int]
    pools: tuple[Pool, ...]
    may: Flags
    columns: tuple[tuple[tuple[int, int], ...], ...]


def pools_of(fleet: Fleet, groups: Sequence[Group]) -> Pools:
    """Blocked hosts and GPUs have nothing."""
    state = FleetState(fleet)
    table = StateTable(state.boards)
    hosts = HostRows(state.hosts, table)
    columns = tuple(
        tuple((table.column(part), part.kind.count) for part in parts_of(group.demand))
        for group in groups
    )
    classes = np.array(classes_of(fleet.hosts), np.int64)
    open_ = np.array([not host.blocked for host in fleet.hosts], np.bool_)
    count = int(classes.max(initial=-1)) + 1
    pools = tuple(_pool(hosts, np.flatnonzero(open_ & (classes == n))) for n in range(count))
    may = np.zeros((count, len(groups)), np.bool_)
    standing = Standing(state.hosts)
    for number, group in enumerate(groups):
        fits = _fits(hosts, table, group, columns[number]) & standing.always(group.demand)
        may[np.unique(classes[fits]), number] = True
    names = (host.name for host in fleet.hosts)
    class_of = dict(zip(names, classes.tolist(), strict=True))
    return Pools(table, class_of, pools, may, columns)


def _pool(hosts: HostRows, members: NDArray[np.int64]) -> Pool:
    rows = Counter(hosts.rows[members].ravel().tolist())
    rows.pop(NOTHING, None)
    cpu = hosts.cpu[members].clip(0).sum()
    memory = hosts.memory[members].clip(0).sum()
    return Pool(len(members), float(cpu), float(memory), dict(rows))


def _fits(
    hosts: HostRows, table: StateTable, group: Group, columns: Sequence[tuple[int, int]]
) -> Flags:
    """A necessary condition, host by host."""
    fits: Flags = (hosts.cpu >= group.demand.vcpus) & (hosts.memory >= group.memory_mib)
    for column, count in columns:
        fits &= table.room[hosts.rows, column].sum(axis=1) >= count
    return fits
