"""Licence seats in the ledger, and whether a reservation stays within them.

As with quotas, seats are counted before and after in the transaction that takes more, after raising
the generation of the edition's row: another taker waits for the row, and then counts again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from vgpumgr.model.errors import NotFound
from vgpumgr.model.licence import Edition, Licence, edition_of, no_seat_left, seats_taken, shortages
from vgpumgr.model.operation import Reservation
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import allocation, licence
from vgpumgr.store.schema.columns import decodes

_LICENCES = select(licence).order_by(licence.c.edition)
_RAISE = (
    update(licence)
    .where(licence.c.edition == bindparam("in_edition"))
    .values(generation=licence.c.generation + 1)
)
_HELD = allocation.c.released_at.is_(None)
_PARTS = select(allocation.c.vm_id, allocation.c.profile).where(_HELD).distinct()


def list_licences(connection: Connection) -> tuple[Licence, ...]:
    """Every edition whose seats are declared, by name."""
    return tuple(licence_of(row) for row in connection.execute(_LICENCES))


@decodes(licence)
def licence_of(row: Any) -> Licence:
    """The licence of a whole row."""
    return Licence(edition=Edition(row.edition), seats=row.seats)


def set_licence(connection: Connection, stamp: Stamp, wanted: Licence) -> None:
    """Write an edition's seats over the ones that it had."""
    name = wanted.edition.value
    values = {"seats": wanted.seats, "generation": licence.c.generation + 1}
    is_it = licence.c.edition == name
    if not connection.execute(update(licence).where(is_it).values(values)).rowcount:
        row = {"edition": name, "seats": wanted.seats, "generation": 1}
        connection.execute(insert(licence).values(row))
    write(connection, stamp, [{"event": "licence.set", "detail": f"{name}: {wanted.seats} seats"}])


def delete_licence(connection: Connection, stamp: Stamp, edition: Edition) -> None:
    """Count its seats no more; NotFound for an edition whose seats are not declared."""
    if not connection.execute(delete(licence).where(licence.c.edition == edition.value)).rowcount:
        raise NotFound(
            f"no seats are declared for licence {edition.value}", next="vgpumgr licence list"
        )
    write(connection, stamp, [{"event": "licence.deleted", "detail": edition.value}])


@contextmanager
def within_seats(connection: Connection, start: Reservation) -> Iterator[None]:
    """NoSeatLeft where what the block writes makes VMs take more seats than there are."""
    touched = {edition_of(each.profile) for each in start.allocations}
    licences = list_licences(connection) if touched - {None} else ()
    limited = [each for each in licences if each.edition in touched]
    if not limited:
        yield
        return
    connection.execute(_RAISE, [{"in_edition": each.edition.value} for each in limited])
    before = _taken(connection)
    yield
    asked = _taken(connection)
    asked.subtract(before)
    if found := list(shortages(limited, before, asked)):
        raise no_seat_left(found)


def _taken(connection: Connection) -> Counter[str]:
    return seats_taken((row.vm_id, row.profile) for row in connection.execute(_PARTS))
