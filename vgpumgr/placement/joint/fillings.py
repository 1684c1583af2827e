"""What a GPU can be filled with: walks through the table of states until nothing more fits."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.placement.joint.problem import Filling
from vgpumgr.placement.table.states import StateTable

MOST_FILLINGS = 400
"""Of one GPU; a board that can be cut up in more ways is left to the other policies of decision."""

_Counts = tuple[int, ...]


class Fillings:
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
