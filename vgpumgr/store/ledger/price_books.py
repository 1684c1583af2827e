"""Price books in the ledger: what an hour of a GPU costs, from which time on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from vgpumgr.model.codec import dump, load
from vgpumgr.model.errors import NotFound
from vgpumgr.model.json_times import time_text
from vgpumgr.model.showback import PriceBook
from vgpumgr.store.ledger.audit_trail import Stamp, write
from vgpumgr.store.schema import price_book
from vgpumgr.store.schema.columns import decodes

_BOOKS = select(price_book).order_by(price_book.c.begins_at)


def list_books(connection: Connection) -> tuple[PriceBook, ...]:
    """Every price book, by when it begins."""
    return tuple(book_of(row) for row in connection.execute(_BOOKS))


@decodes(price_book)
def book_of(row: Any) -> PriceBook:
    """The price book of a whole row."""
    return replace(load(PriceBook, row.prices), begins_at=row.begins_at)


def set_book(connection: Connection, stamp: Stamp, book: PriceBook) -> None:
    """Write a price book over the one that begins at its time. The trail keeps all of them."""
    is_it = price_book.c.begins_at == book.begins_at
    values = {"prices": dump(book), "set_at": stamp.at}
    if not connection.execute(update(price_book).where(is_it).values(values)).rowcount:
        connection.execute(insert(price_book).values(begins_at=book.begins_at, **values))
    write(connection, stamp, [{"event": "price.set", "detail": _words(book)}])


def _words(book: PriceBook) -> str:
    prices = ", ".join(f"{model} {price}" for model, price in sorted(book.gpu_hour.items()))
    return f"from {time_text(book.begins_at)}, {book.currency} an hour: {prices}"


def remove_book(connection: Connection, stamp: Stamp, begins_at: float) -> None:
    """Forget a price book; NotFound where none begins then."""
    found = connection.execute(delete(price_book).where(price_book.c.begins_at == begins_at))
    at = time_text(begins_at)
    if not found.rowcount:
        raise NotFound(f"no price book begins at {at}", next="vgpumgr price list")
    write(connection, stamp, [{"event": "price.removed", "detail": f"from {at}"}])
