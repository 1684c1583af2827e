"""Bring an older ledger to today's schema: a backup first, then all steps in one transaction."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType

from sqlalchemy import Connection, create_engine, select, update
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.database import Database
from vgpumgr.store.faults import told
from vgpumgr.store.publish import publish
from vgpumgr.store.schema import SCHEMA_VERSION, meta


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """From which schema to which; ``backup`` is None on a server, or where nothing was to do."""

    before: int
    after: int
    backup: Path | None = None


def _vfs_and_layouts(connection: Connection) -> None:
    """Version 2: what an allocation has of VFs and GPU instances; the layout of each GPU."""
    connection.exec_driver_sql("ALTER TABLE allocation ADD COLUMN extra TEXT NOT NULL DEFAULT '{}'")
    connection.exec_driver_sql(
        "CREATE TABLE layout (gpu TEXT NOT NULL PRIMARY KEY REFERENCES gpu (id), "
        "host TEXT NOT NULL, layout TEXT NOT NULL, goal TEXT NOT NULL, operation TEXT NOT NULL, "
        "settled BOOLEAN NOT NULL)"
    )


def _two_hosts(connection: Connection) -> None:
    """Version 3: where a VM is moving, and tasks whose steps are on two hosts."""
    connection.exec_driver_sql("ALTER TABLE vm ADD COLUMN moving_to TEXT")
    connection.exec_driver_sql("ALTER TABLE task ADD COLUMN peer TEXT NOT NULL DEFAULT ''")
    connection.exec_driver_sql("ALTER TABLE step ADD COLUMN host TEXT NOT NULL DEFAULT ''")


def _trail_and_freeze(connection: Connection) -> None:
    """Version 4: the audit trail, the freeze, workers, due looks, why a GPU is out of use."""
    number = "INTEGER NOT NULL" if connection.dialect.name == "sqlite" else "SERIAL"
    connection.exec_driver_sql(
        f"CREATE TABLE audit (seq {number} PRIMARY KEY, at FLOAT NOT NULL, by TEXT NOT NULL, "
        "event TEXT NOT NULL, operation TEXT NOT NULL, task TEXT NOT NULL, vm TEXT NOT NULL, "
        "host TEXT NOT NULL, gpu TEXT NOT NULL, allocation TEXT NOT NULL, profile TEXT NOT NULL, "
        "device TEXT NOT NULL, units TEXT NOT NULL, before INTEGER, after INTEGER, "
        "detail TEXT NOT NULL)"
    )
    for statement in (
        "ALTER TABLE meta ADD COLUMN frozen_why TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE meta ADD COLUMN frozen_at FLOAT",
        "ALTER TABLE host ADD COLUMN due_at FLOAT",
        "ALTER TABLE gpu ADD COLUMN state_why TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE vm ADD COLUMN definition TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE operation ADD COLUMN worker TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX ix_audit_operation ON audit (operation)",
        "CREATE INDEX ix_audit_vm ON audit (vm)",
        "CREATE INDEX ix_audit_host ON audit (host)",
    ):
        connection.exec_driver_sql(statement)


def _queue_and_quotas(connection: Connection) -> None:
    """Version 5: what tenants may hold, and who waits for room."""
    for statement in (
        "CREATE TABLE quota (tenant TEXT NOT NULL PRIMARY KEY, limits TEXT NOT NULL, "
        "generation INTEGER NOT NULL)",
        "CREATE TABLE queue (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, "
        "spec TEXT NOT NULL, state TEXT NOT NULL, since FLOAT NOT NULL, started_at FLOAT, "
        "closed_at FLOAT, vm_id TEXT REFERENCES vm (id), preempted INTEGER NOT NULL, "
        "why TEXT NOT NULL, generation INTEGER NOT NULL)",
        "CREATE INDEX ix_queue_vm_id ON queue (vm_id)",
        "CREATE UNIQUE INDEX queue_name_once ON queue (name) WHERE closed_at IS NULL",
    ):
        connection.exec_driver_sql(statement)


# Version a step starts from → the step, in words that both databases know. A step once shipped
# never changes, whatever becomes of the tables later.
STEPS: Mapping[int, Callable[[Connection], None]] = MappingProxyType(
    {1: _vfs_and_layouts, 2: _two_hosts, 3: _trail_and_freeze, 4: _queue_and_quotas}
)


def migrate(database: Database, path: Path | None) -> Migration:
    """Migrate the ledger; its file at ``path`` is copied beside itself first (none on a server).

    The write lock is held from the copy to the commit: nobody's work falls between the two.
    """
    with database.write() as connection:
        before = connection.execute(select(meta.c.schema_version).with_for_update()).scalar_one()
        if before >= SCHEMA_VERSION:
            return Migration(before=before, after=before)  # another process was faster
        backup = _back_up(path, before) if path is not None else None
        for version in range(before, SCHEMA_VERSION):
            STEPS[version](connection)
        connection.execute(update(meta).values(schema_version=SCHEMA_VERSION))
    return Migration(before=before, after=SCHEMA_VERSION, backup=backup)


def _back_up(path: Path, version: int) -> Path:
    """``ledger.sqlite.schema-1``, or with a number where that is there already."""
    try:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=path.parent) as folder:
            copy = Path(folder) / path.name
            copy.touch(mode=0o600)
            _copy(path, copy, version)
            name = f"{path.name}.schema-{version}"
            names = (path.with_name(f"{name}{f'-{n}' if n else ''}") for n in count())
            return next(each for each in names if publish(copy, each))
    except OSError as error:
        raise LedgerError(
            f"the ledger {path} cannot be backed up, so it was not migrated",
            why=f"{error.strerror or error}: {error.filename}",
            next=f"df -h {path.parent}; ls -ld {path.parent}",
        ) from error


def _copy(path: Path, copy: Path, version: int) -> None:
    """Copy a ledger that others may be reading, and read the copy back."""
    with told(str(path)):
        with _plain(path) as source:
            source.exec_driver_sql("VACUUM INTO ?", (str(copy),))
        with _plain(copy) as made:
            sound = made.exec_driver_sql("PRAGMA quick_check").scalar() == "ok"
            found = made.execute(select(meta.c.schema_version)).scalar()
    if not sound or found != version:
        raise LedgerError(
            f"the backup of {path} cannot be read back, so it was not migrated",
            why=f"quick_check says {'ok' if sound else 'damaged'}, schema {found}",
            next=f"vgpumgr doctor; sqlite3 {path} 'PRAGMA integrity_check'",
        )


def _plain(path: Path) -> Connection:
    """A connection outside of any transaction: VACUUM allows none."""
    url = URL.create("sqlite", database=str(path))
    return create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect()
