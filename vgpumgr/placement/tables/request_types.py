"""Request types as columns of numbers: vCPUs, memory, NUMA policy and GPU parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vgpumgr.model.vm import NumaPolicy
from vgpumgr.placement.resources.demand import Demand
from vgpumgr.placement.tables.gpu_states import Part, StateTable

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

ALWAYS = -1
"""The column of a part that is not asked for: there is always room for it."""


class RequestTypes:
    """One entry per type, in the order in which the types came up.

    ``columns`` and ``counts`` [types × kinds] say which parts of the table a type needs;
    ``needs`` is the room without which it surely does not fit (parts by size may come to be of
    different offers, and the table counts only one way). ``bundles`` have the same by type:
    column and count of each kind, ``bundles_with_needs`` the room needed too. ``paged`` and
    ``any_pinned`` say whether any type wants huge pages or CPUs of its own. ``single`` are
    types of one GPU part, ``several`` those of more.
    """

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self.demands: list[Demand] = []
        self._tabulate()

    def add(self, demands: Sequence[Demand]) -> None:
        """More types, numbered on from those there are."""
        self.demands += demands
        for demand in demands:
            for part in parts_of(demand):
                self._table.column(part)
        self._tabulate()

    def only(self, numbers: Sequence[int]) -> RequestTypes:
        """Some of the types by themselves, numbered from 0."""
        some = RequestTypes(self._table)
        some.add([self.demands[number] for number in numbers])
        return some

    def _tabulate(self) -> None:
        all_of = self.demands
        self.cpu = np.array([d.vcpus for d in all_of], np.int64)
        self.memory = np.array([d.memory_mib for d in all_of], np.int64)
        self.pages = np.array([d.pages for d in all_of], np.int64)
        self.pinned = np.array([d.vcpus if d.pin_cpus else 0 for d in all_of], np.int64)
        self.require = np.array([d.numa is NumaPolicy.REQUIRE for d in all_of], np.bool_)
        self.prefer = np.array([d.numa is NumaPolicy.PREFER for d in all_of], np.bool_)
        self.paged, self.any_pinned = bool(self.pages.any()), bool(self.pinned.any())
        self.needs_nodes = self.require | (self.pages > 0) | (self.pinned > 0)
        self.page_sizes = sorted({d.hugepage_kib for d in all_of})
        sizes = {size: n for n, size in enumerate(self.page_sizes)}
        self.page_size = np.array([sizes[d.hugepage_kib] for d in all_of], np.int64)
        kinds = np.array([len(d.kinds) for d in all_of], np.int64)
        self.on_many: Flags = (kinds <= 1) & (self.pages == 0)
        self._tabulate_parts()

    def _tabulate_parts(self) -> None:
        width = max((len(d.kinds) for d in self.demands), default=0) or 1
        shape = len(self.demands), width
        self.columns = np.full(shape, ALWAYS, np.int64)
        self.counts = np.zeros(shape, np.int64)
        self.needs = np.zeros(shape, np.int64)
        for number, demand in enumerate(self.demands):
            for at, part in enumerate(parts_of(demand)):
                self.columns[number, at] = self._table.column(part)
                self.counts[number, at] = part.kind.count
                self.needs[number, at] = part.kind.count if part.kind.profile else 1
        self.bundles = [
            tuple((self._table.column(part), part.kind.count) for part in parts_of(demand))
            for demand in self.demands
        ]
        self.bundles_with_needs = [
            tuple((*part, int(need)) for part, need in zip(bundle, needs, strict=False))
            for bundle, needs in zip(self.bundles, self.needs.tolist(), strict=True)
        ]
        parts = self.counts.sum(axis=1)
        self.has_parts = parts > 0
        self.single = np.flatnonzero(parts == 1)
        self.several = np.flatnonzero(parts > 1)
        self.without = np.flatnonzero(parts == 0)


def parts_of(demand: Demand) -> list[Part]:
    """The columns that a type needs.

    Where parts by size may all turn out to be whole GPUs, fewer vGPUs count against the limit of
    what one VM may have.
    """
    loose = demand.parts > 1 and any(not kind.profile for kind in demand.kinds)
    counted = demand.all_whole() if loose else demand
    return [Part(kind, counted) for kind in demand.kinds]
