"""SQL that one database of this process had compiled serves the others, as it would in one program.

A test opens its own ledgers, and each command opens one anew: without this every one of them turns
the same statements into text once more: a third of the processor time of commands in tests.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy

from vgpumgr.store.database import connections, postgresql

_FIRST: dict[str, sqlalchemy.Engine] = {}


def share() -> None:
    """From now on ledgers that this process opens share it, by kind of database."""
    connections.create_engine = postgresql.create_engine = _engine  # type: ignore[attr-defined]


def _engine(*arguments: Any, **options: Any) -> sqlalchemy.Engine:
    """As SQLAlchemy's, with the dialect and the compiled statements of the first of its kind.

    The first is one that has connected: until then a dialect does not know its server.
    """
    engine = sqlalchemy.create_engine(*arguments, **options)
    kind = engine.dialect.name
    if first := _FIRST.get(kind):
        engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
    else:
        sqlalchemy.event.listen(engine, "first_connect", lambda *_: _FIRST.setdefault(kind, engine))
    return engine
