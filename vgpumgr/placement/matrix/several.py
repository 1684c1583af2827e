"""Where the parts of a VM with several GPU parts would go on one host, for its score.

One good way, part by part; the exact fit may find another. Hard constraints are not its business.
"""

from __future__ import annotations

from vgpumgr.placement.matrix.mixed import MixRows
from vgpumgr.placement.matrix.wants import Ints, Wants
from vgpumgr.placement.table.states import StateTable

Bundle = tuple[tuple[int, int], ...]
"""Columns of the table, each with how many parts."""

Laid = tuple[list[int], float]
"""The states of all GPUs of a host afterwards, and what was taken beyond what was asked for."""


def laid_out(gpus: Ints, wants: Wants, table: StateTable, mix: MixRows) -> dict[int, Laid]:
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
