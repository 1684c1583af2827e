"""The columns of the table: what a GPU may be asked to hold one of."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.placement.demand import Demand, Kind, KindKey


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a kind, for a VM with ``demand.vgpus`` vGPUs in all (some types limit that)."""

    kind: Kind
    demand: Demand


class Parts:
    """Columns by what they ask for, numbered as they come up."""

    def __init__(self) -> None:
        self.all: list[Part] = []
        self._known: dict[tuple[KindKey, int], int] = {}

    def __len__(self) -> int:
        return len(self.all)

    def column(self, kind: Kind, demand: Demand) -> int:
        """The column of one part of ``kind`` for such a VM."""
        key = kind.key, demand.vgpus
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.all)
            self.all.append(Part(kind, demand))
        return number
