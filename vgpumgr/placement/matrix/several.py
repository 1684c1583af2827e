"""Where the parts of a VM with several GPU parts would go on one host, for its score.

One good way, part by part; the exact fit may find another. Hard constraints are not its business.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vgpumgr.placement.matrix.mixed import MixRows
from vgpumgr.placement.matrix.wants import Ints, Wants
from vgpumgr.placement.table.states import NOTHING, StateTable

Bundle = tuple[tuple[int, int], ...]
"""Columns of the table, each with how many parts."""


@dataclass(frozen=True, slots=True)
class Change:
    """States of some GPUs of a host, and of the same GPUs afterwards."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def uniform(self) -> bool:
        """Every GPU goes the same way."""
        return len(set(self.before)) <= 1 and len(set(self.after)) <= 1


def changes(gpus: Ints, wants: Wants, table: StateTable, mix: MixRows) -> dict[int, Change]:
    """The change by type, for types of several parts that some way of laying them out holds."""
    rows = [row for row in gpus.tolist() if row != NOTHING]
    known: dict[Bundle, Change | None] = {}
    found: dict[int, Change] = {}
    for number in wants.several.tolist():
        bundle = wants.bundles[number]
        if bundle not in known:
            known[bundle] = _laid_out(rows, bundle, table, mix)
        change = known[bundle]
        if change is not None:
            found[number] = change
    return found


def _laid_out(rows: list[int], bundle: Bundle, table: StateTable, mix: MixRows) -> Change | None:
    now = list(rows)
    for column, count in bundle:
        for _ in range(count):
            best = _best(now, column, table, mix)
            if best is None:
                return None
            now[best] = int(mix.after(np.array([now[best]]), np.array([column]))[0])
    moved = [(was, is_now) for was, is_now in zip(rows, now, strict=True) if was != is_now]
    return Change(tuple(was for was, _ in moved), tuple(is_now for _, is_now in moved))


def _best(rows: list[int], column: int, table: StateTable, mix: MixRows) -> int | None:
    """The GPU where one more part wastes least, the fullest of those."""
    room = table.room
    fit = {row for row in rows if room[row, column]}
    if not fit:
        return None
    if len(fit) > 1:
        table.open_rows(fit)
        mix.catch_up()
        fit = {min(fit, key=lambda row: mix.loss(row, int(table.after[row, column])))}
    else:
        table.open_rows(fit)
    return rows.index(fit.pop())
