"""Host pools of the capacity plan: hosts of one class added up, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import frexp

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply
from vgpumgr.placement.capacity_plan.quota_plan import RequestGroup
from vgpumgr.placement.resources.host_state import FleetState
from vgpumgr.placement.tables.gpu_states import NOTHING, StateTable
from vgpumgr.placement.tables.host_table import HostFilters, HostRows, host_class
from vgpumgr.placement.tables.request_types import parts_of

MOST_CLASSES = 48


def classes_of(hosts: Sequence[HostSupply]) -> tuple[int, ...]:
    """The class of each host, numbered as they come up.

    Hosts of a class are built alike. Where that makes too many classes, sizes that are nearly
    equal count as equal, then labels and networks are looked past, then sizes too.
    """
    boards = _Boards()
    rough: tuple[Callable[[HostSupply], Hashable], ...] = (
        lambda host: (_size(host), boards.of(host), host_class(host)),
        lambda host: (*map(_roughly, _size(host)), boards.of(host), host_class(host)),
        lambda host: (*map(_roughly, _size(host)), boards.of(host)),
        boards.of,
    )
    for key in rough:
        numbers: dict[Hashable, int] = {}
        found = tuple(numbers.setdefault(key(host), len(numbers)) for host in hosts)
        if len(numbers) <= MOST_CLASSES:
            return found
    return found


def _size(host: HostSupply) -> tuple[int, int]:
    return host.vcpus or host.free_vcpus, host.memory_mib or host.free_memory_mib


def _roughly(number: int) -> tuple[int, int]:
    """Three significant bits."""
    mantissa, exponent = frexp(number)
    return round(mantissa * 8), exponent


class _Boards:
    """What a host's GPUs are, without what lies on them. Offers shared by GPUs hash once."""

    def __init__(self) -> None:
        self._offers: dict[int, Hashable] = {}
        self._known: dict[Hashable, int] = {}

    def of(self, host: HostSupply) -> Hashable:
        return tuple(sorted(self._number(gpu) for gpu in host.gpus))

    def _number(self, gpu: GpuSupply) -> int:
        offers = self._offers.get(id(gpu.offers))
        if offers is None:
            offers = self._offers[id(gpu.offers)] = tuple(
                (offer.profile, offer.type_id, offer.units) for offer in gpu.offers
            )
        key = gpu.model, gpu.units, gpu.same_size, gpu.mixed_size, offers
        return self._known.setdefault(key, len(self._known))


Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HostPool:
    """What hosts of a class have free in all. ``gpus`` counts GPUs by row of the table."""

    hosts: int
    vcpus: float
    memory_mib: float
    gpus: dict[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class HostPools:
    """``may`` [pools × groups]: some host of the pool takes a request of the group.

    ``columns`` are by group the columns of the table that it takes, with how many.
    """

    table: StateTable
    class_of: dict[str, int]
    pools: tuple[HostPool, ...]
    may: Flags
    columns: tuple[tuple[tuple[int, int], ...], ...]


def pools_of(fleet: Fleet, groups: Sequence[RequestGroup]) -> HostPools:
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
    filters = HostFilters(state.hosts)
    for number, group in enumerate(groups):
        fits = _fits(hosts, table, group, columns[number]) & filters.always(group.demand)
        may[np.unique(classes[fits]), number] = True
    names = (host.name for host in fleet.hosts)
    class_of = dict(zip(names, classes.tolist(), strict=True))
    return HostPools(table, class_of, pools, may, columns)


def _pool(hosts: HostRows, members: NDArray[np.int64]) -> HostPool:
    rows = Counter(hosts.rows[members].ravel().tolist())
    rows.pop(NOTHING, None)
    cpu = hosts.cpu[members].clip(0).sum()
    memory = hosts.memory[members].clip(0).sum()
    return HostPool(len(members), float(cpu), float(memory), dict(rows))


def _fits(
    hosts: HostRows, table: StateTable, group: RequestGroup, columns: Sequence[tuple[int, int]]
) -> Flags:
    """A necessary condition, host by host."""
    fits: Flags = (hosts.cpu >= group.demand.vcpus) & (hosts.memory >= group.memory_mib)
    for column, count in columns:
        fits &= table.room[hosts.rows, column].sum(axis=1) >= count
    return fits
