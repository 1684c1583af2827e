"""One neighbourhood of an order as a batch problem: hosts, movable VMs, GPU filling patterns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy, VmSpec
from vgpumgr.placement.batch.batch_problem import (
    BatchGroup,
    BatchProblem,
    Bin,
    FilledGpus,
    Filling,
    SharedGpus,
)
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.resources.host_state import FleetState
from vgpumgr.placement.tables.gpu_states import NOTHING, StateTable
from vgpumgr.placement.tables.host_table import HostFilters, HostRows
from vgpumgr.placement.tables.request_types import parts_of

MOST_FILLINGS = 400
"""Of one GPU; a board that can be cut up in more ways is left to the other policies of decision."""

_Counts = tuple[int, ...]


class FillingPatterns:
    """Every way to fill GPUs with parts of these columns, by state."""

    def __init__(self, table: StateTable, columns: Sequence[int]) -> None:
        self._table = table
        self._columns = columns
        self._known: dict[int, dict[_Counts, Filling] | None] = {}

    def of(self, row: int) -> tuple[Filling, ...] | None:
        """For a GPU in that state; None where there are too many."""
        found = self._of(row)
        return None if found is None else tuple(found.values())

    def _of(self, row: int) -> dict[_Counts, Filling] | None:
        if row not in self._known:
            self._known[row] = self._walk(row)
        return self._known[row]

    def _walk(self, row: int) -> dict[_Counts, Filling] | None:
        table = self._table
        table.open_rows([row])
        found: dict[_Counts, Filling] = {}
        for number, column in enumerate(self._columns):
            if not table.room[row, column]:
                continue
            for after in table.choices(row, column):
                rest = self._of(after)
                if rest is None or len(found) > MOST_FILLINGS:
                    return None
                for counts, filling in rest.items():
                    more = (*counts[:number], counts[number] + 1, *counts[number + 1 :])
                    found.setdefault(more, (column, *filling))
        return found or {(0,) * len(self._columns): ()}


class Neighbourhood:
    """``fleet`` is the supply without these VMs; ``members[g]`` are the keys of the VMs of group g.

    ``parts`` are what the columns stand for.
    """

    def __init__(self, fleet: Fleet, requests: Mapping[int, VmSpec]) -> None:
        self.state = FleetState(fleet)
        self.requests = requests
        self.members: list[list[int]] = []
        self.demands: list[Demand] = []
        self._group()
        self._table = StateTable(self.state.boards)
        self.needs = [
            tuple((self._table.column(part), part.kind.count) for part in parts_of(demand))
            for demand in self.demands
        ]
        self._rows = HostRows(self.state.hosts, self._table).rows
        columns = sorted({column for needs in self.needs for column, _ in needs})
        self._columns = columns
        self.parts = self._table.parts.all
        self._whole = tuple(column for column in columns if self.parts[column].kind.whole)
        self._fillings = FillingPatterns(self._table, columns)
        self._milli = self._sizes()

    def problem(
        self, placed: Collection[int], effort: float, seconds: float
    ) -> BatchProblem | None:
        """For more VMs than are ``placed``; None where a GPU can be filled in too many ways."""
        takes = self._takes()
        bins = []
        for number in range(len(self.state.hosts)):
            found = self._bin(number, takes[number])
            if found is None:
                return None
            bins.append(found)
        return BatchProblem(
            bins=tuple(bins),
            groups=self._groups(),
            above=len(placed),
            milli=self.milli(placed),
            effort=effort,
            seconds=seconds,
        )

    def milli(self, placed: Collection[int]) -> int:
        """The GPU that these VMs take, in thousandths of one; each where it takes the most."""
        return sum(
            milli * sum(key in placed for key in members)
            for milli, members in zip(self._milli, self.members, strict=True)
        )

    def _groups(self) -> tuple[BatchGroup, ...]:
        parts = zip(self.demands, self.needs, self.members, self._milli, strict=True)
        return tuple(
            BatchGroup(demand.vcpus, demand.memory_mib, needs, len(members), milli)
            for demand, needs, members, milli in parts
        )

    def _sizes(self) -> list[int]:
        """By group, of one VM."""
        sizes = {column: self._size(column) for column in self._columns}
        return [sum(sizes[column] * count for column, count in needs) for needs in self.needs]

    def _size(self, column: int) -> int:
        """Of one part."""
        table = self._table
        rows = np.unique(self._rows)
        table.open_rows(rows.tolist())
        rows = rows[table.room[rows, column] > 0]
        taken = table.free[rows] - table.free[table.after[rows, column]]
        return round(float(taken.max(initial=0)))

    def _group(self) -> None:
        numbers: dict[Demand, int] = {}
        for key, request in self.requests.items():
            demand = self.state.digest(request, PlacementPolicy.CAPACITY_FIRST)
            number = numbers.setdefault(demand, len(numbers))
            if number == len(self.members):
                self.members.append([])
                self.demands.append(demand)
            self.members[number].append(key)

    def _takes(self) -> list[tuple[int, ...]]:
        """By host the groups that its rules allow."""
        filters = HostFilters(self.state.hosts)
        may = np.array([filters.always(demand) for demand in self.demands], bool)
        return [tuple(np.flatnonzero(may[:, n]).tolist()) for n in range(len(self.state.hosts))]

    def _bin(self, number: int, takes: tuple[int, ...]) -> Bin | None:
        host = self.state.hosts[number]
        shared, filled = [], []
        for row, gpus in self._states(number):
            if row in self._table.keys:
                fillings = self._fillings.of(row)
                if fillings is None:
                    return None
                filled.append(FilledGpus(gpus, fillings, self._whole))
            else:
                shared.append(self._shared(row, gpus))
        numbers = {gpu.supply.id: number for number, gpu in enumerate(host.gpus)}
        return Bin(
            vcpus=max(0, host.free_vcpus),
            memory_mib=max(0, host.memory_mib),
            takes=takes,
            shared=tuple(shared),
            filled=tuple(filled),
            partitions=tuple(
                tuple(sorted(numbers[gpu] for gpu in each.gpus))
                for each in host.supply.partitions
                if each.gpus <= numbers.keys()
            ),
        )

    def _states(self, number: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """GPUs in the same state, all at once where no NVSwitch tells them apart."""
        rows = self._rows[number]
        switched = self.state.hosts[number].supply.partitions
        for row in dict.fromkeys(rows.tolist()):
            gpus = np.flatnonzero(rows == row).tolist()
            if row != NOTHING:
                yield from ((row, (gpu,)) for gpu in gpus) if switched else [(row, tuple(gpus))]

    def _shared(self, row: int, gpus: tuple[int, ...]) -> SharedGpus:
        """Parts that one GPU takes one of are whole GPUs if they leave nothing of it."""
        table = self._table
        units = int(table.units[row])
        here = [column for column in self._columns if table.room[row, column]]
        sizes = [(column, units - int(table.units[table.after[row, column]])) for column in here]
        whole = [column for column, size in sizes if size >= units]
        return SharedGpus(
            gpus=gpus,
            units=units,
            sizes=tuple((column, size) for column, size in sizes if 0 < size < units),
            whole=tuple(whole),
        )
