"""Every test that takes ``url`` runs on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledgers import new_ledger
from tests.pgserver import PgServer
from tests.unit.store import values
from vgpumgr.store import open_ledger
from vgpumgr.store.schema import metadata

# Quicker than making a database for each test, and much quicker than removing one.
_AS_NEW = (
    "".join(
        f'DELETE FROM "{table.name}"; '
        for table in reversed(metadata.sorted_tables)
        if table.name != "meta"
    )
    + "UPDATE meta SET epoch = 1, frozen_why = '', frozen_at = NULL"
)


@pytest.fixture(scope="session")
def pg_ledger(pg: PgServer) -> str:
    """The address of a ledger that the tests of this process use in turn."""
    url = pg.database()
    open_ledger(url).close()
    return url


@pytest.fixture
def pg_url(pg: PgServer, pg_ledger: str) -> Iterator[str]:
    """The address of a ledger in which nothing is; nobody else has it open."""
    yield pg_ledger
    values.close_all()
    pg.end_sessions(pg_ledger)
    pg.sql(_AS_NEW, pg.name(pg_ledger))


@pytest.fixture
def pg_copy(pg: PgServer, pg_url: str) -> str:
    """The address of a ledger in a database of its own."""
    return pg.database(pg.name(pg_url))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty ledger; what ``values`` opened on it is closed at the end."""
    if request.param == "sqlite":
        new_ledger(tmp_path / "l")
        yield str(tmp_path / "l")
        values.close_all()
    else:
        yield request.getfixturevalue("pg_url")
