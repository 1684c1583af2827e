"""Redaction of cloud-init text: digests in closed rows, and a write-ahead log emptied of the text.

It may hold passwords and keys. It stays in the row of a VM, a queue entry or a pool
while that is open, because a seed is made of it. Requests, steps and closed rows hold
its digest. In the file itself deleted content is overwritten (``secure_delete``);
SQLite's log keeps earlier content until it is begun anew.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, TableClause, select, update
from sqlalchemy.sql import ColumnElement

from vgpumgr.model.codec import dump
from vgpumgr.model.vm_devices import seed_digest

_KEY = "cloud_init"
_MAY_HOLD = f'"{_KEY}":{{'
_TEXTS = ("user_data", "network_config")

OWED = "vgpumgr_owed"
"""In ``Connection.info``: what this transaction overwrote must leave the file's log, too."""


def withheld(text: str) -> str:
    """The JSON of a spec or of a step's arguments, with digests for its cloud-init text.

    What is not JSON is left to `store check`.
    """
    try:
        return dump(_without(json.loads(text))) if _MAY_HOLD in text else text
    except ValueError:
        return text


def withhold(connection: Connection, table: TableClause, which: ColumnElement[bool]) -> None:
    """Take the text out of the ``spec`` of rows that are closed with this transaction."""
    it = table.c.spec
    rows = connection.execute(select(table.c.id, it).where(which, it.contains(_MAY_HOLD))).all()
    for id_, spec in rows:
        rewrite(connection, table, table.c.id == id_, "spec", spec)


def rewrite(
    connection: Connection, table: TableClause, row: ColumnElement[bool], column: str, text: str
) -> None:
    """Write a row's JSON without cloud-init text, where it has any."""
    less = withheld(text)
    if less != text:
        connection.execute(update(table).where(row).values({column: less}))
        owe(connection)


def owe(connection: Connection) -> None:
    """What this transaction overwrites is not to stay in the file's log."""
    connection.info[OWED] = True


def _without(value: Any) -> Any:
    if isinstance(value, list):
        return [_without(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _seed(item) if key == _KEY and isinstance(item, dict) else _without(item)
        for key, item in value.items()
    }


def _seed(seed: dict[str, Any]) -> dict[str, Any]:
    texts = [seed.get(name) for name in _TEXTS]
    if texts == [None, None]:
        return seed
    return {**seed, **dict.fromkeys(_TEXTS), "digest": seed_digest(*texts)}
