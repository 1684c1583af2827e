"""Units taken for allocations: one that has an owner cannot be inserted again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select
from sqlalchemy.exc import IntegrityError

from vgpumgr.model.errors import LedgerError, StaleGeneration
from vgpumgr.model.vm import Allocation
from vgpumgr.store.schema import MEMORY, VF, allocation, gpu, unit
from vgpumgr.store.vms import allocation_row

AGAIN = "the same command again: it makes a new plan"

_UNITS = select(gpu.c.id, gpu.c.units).where(gpu.c.id.in_(bindparam("in_gpus", expanding=True)))


def check_slots(connection: Connection, allocations: Sequence[Allocation]) -> None:
    """Every allocation takes units that its GPU has: without, nobody would referee it."""
    wanted = sorted({each.gpu for each in allocations})
    rows = connection.execute(_UNITS, {"in_gpus": wanted})
    units = {row.id: row.units for row in rows}
    for each in allocations:
        if not each.slots:
            raise LedgerError(f"the allocation of {each.gpu} to {each.vm} names no units")
        count = units.get(each.gpu, 0)
        if not 0 <= min(each.slots) <= max(each.slots) < count:
            raise StaleGeneration(
                f"{each.gpu} has no units {each.slots} for {each.vm}",
                why=f"it has {count}",
                next=AGAIN,
            )


def insert_allocations(connection: Connection, allocations: Sequence[Allocation]) -> None:
    """Take units; StaleGeneration where one of them, or a device, has an owner."""
    if not allocations:
        return
    units = (unit_row for each in allocations for unit_row in _units(each))
    try:
        connection.execute(insert(allocation), [allocation_row(each) for each in allocations])
        connection.execute(insert(unit), list(units))
    except IntegrityError as error:
        raise StaleGeneration(
            "a unit or device was taken since the plan was made",
            why=f"on one of {some(each.gpu for each in allocations)} ({error.orig})",
            next=AGAIN,
        ) from error


def _units(taken: Allocation) -> Iterator[dict[str, Any]]:
    """One row per memory slot, and one for the virtual function."""
    for slot in taken.slots:
        yield {"gpu_id": taken.gpu, "kind": MEMORY, "slot": slot, "allocation_id": taken.id}
    if taken.vf is not None:
        yield {"gpu_id": taken.gpu, "kind": VF, "slot": taken.vf, "allocation_id": taken.id}


def some(names: Iterable[str], most: int = 5) -> str:
    """The first of them, and how many more there are."""
    every = sorted(set(names))
    rest = len(every) - most
    return ", ".join(every[:most]) + (f" and {rest} more" if rest > 0 else "")
