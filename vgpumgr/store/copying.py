"""A whole ledger from one database into another, whichever keeps it, and read back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sqlalchemy import Connection, Integer, Table, delete, func, insert, select, text

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.schema import metadata

_AT_ONCE = 1000
_BITS = 128

Content = Mapping[str, tuple[int, int]]
"""Of each table: how many rows, and the sum of their digests (rows have no common order)."""


def copy_all(source: Connection, target: Connection) -> Content:
    """Every row into tables that are empty; LedgerError when they do not read back the same."""
    for table in metadata.sorted_tables:
        for rows in source.execute(select(table)).mappings().partitions(_AT_ONCE):
            target.execute(insert(table), [dict(row) for row in rows])
    _set_counters(target)
    wanted, found = content(source), content(target)
    different = [name for name in wanted if wanted[name] != found[name]]
    if different:
        raise LedgerError(
            "the copy of the ledger differs from its source",
            why=f"{', '.join(different)} differ after reading them back",
            next="vgpumgr store check",
        )
    return wanted


def clear(target: Connection) -> None:
    """Delete every row."""
    for table in reversed(metadata.sorted_tables):
        target.execute(delete(table))


def content(connection: Connection) -> Content:
    """What is in each table."""
    return {table.name: _content(connection, table) for table in metadata.sorted_tables}


def is_fresh(connection: Connection) -> bool:
    """Has nothing ever been written to this ledger, but its own identity?"""
    return all(
        connection.execute(select(func.count()).select_from(table)).scalar() == 0
        for table in metadata.sorted_tables
        if table.name != "meta"
    )


def _content(connection: Connection, table: Table) -> tuple[int, int]:
    count = total = 0
    for row in connection.execute(select(table)):
        digest = hashlib.blake2b(repr(tuple(row)).encode(), digest_size=_BITS // 8).digest()
        count, total = count + 1, (total + int.from_bytes(digest, "big")) % 2**_BITS
    return count, total


def _set_counters(target: Connection) -> None:
    """PostgreSQL counts rows by itself: it goes on above those that were copied."""
    if target.dialect.name != "postgresql":
        return
    for table in metadata.sorted_tables:
        [key, *more] = table.primary_key.columns
        if isinstance(key.type, Integer) and not more and table.name != "meta":
            highest = target.execute(select(func.max(key))).scalar()
            counter = func.pg_get_serial_sequence(table.name, key.name)
            target.execute(select(func.setval(counter, highest or 1, text(str(bool(highest))))))
