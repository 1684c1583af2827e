"""Migration of an older ledger to the current schema: a backup, then all steps at once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType

from sqlalchemy import Connection, column, create_engine, select, table, true, update
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from vgpumgr.model.errors import LedgerError
from vgpumgr.store.admin.access_steps import access_tables, name_indexes, tenant_columns
from vgpumgr.store.admin.table_steps import (
    backup_tables,
    flavour_table,
    guest_column,
    nic_functions_column,
    power_tables,
    profile_disk_table,
    secret_table,
)
from vgpumgr.store.database.connections import Database, database_errors
from vgpumgr.store.database.ledger_file import publish
from vgpumgr.store.database.redaction import rewrite, withhold
from vgpumgr.store.schema import SCHEMA_VERSION, meta


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


def _pools(connection: Connection) -> None:
    """Version 6: pools of desktops, their sessions and bookings."""
    for statement in (
        "CREATE TABLE pool (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, spec TEXT NOT NULL, "
        "rollout TEXT, closing BOOLEAN NOT NULL, leaving BOOLEAN NOT NULL, "
        "created_at FLOAT NOT NULL, closed_at FLOAT, generation INTEGER NOT NULL)",
        "CREATE TABLE desktop (id TEXT NOT NULL PRIMARY KEY, "
        "pool TEXT NOT NULL REFERENCES pool (id), name TEXT NOT NULL, "
        "vm_id TEXT REFERENCES vm (id), doing TEXT NOT NULL, state TEXT NOT NULL, "
        "image TEXT NOT NULL, since FLOAT NOT NULL, host TEXT NOT NULL, owner TEXT NOT NULL, "
        "session TEXT, stained BOOLEAN NOT NULL, failures INTEGER NOT NULL, why TEXT NOT NULL, "
        "closed_at FLOAT, generation INTEGER NOT NULL)",
        "CREATE TABLE pool_session (id TEXT NOT NULL PRIMARY KEY, "
        "pool TEXT NOT NULL REFERENCES pool (id), desktop TEXT NOT NULL REFERENCES desktop (id), "
        "name TEXT NOT NULL, user_name TEXT NOT NULL, booking TEXT NOT NULL, since FLOAT NOT NULL, "
        "why TEXT NOT NULL, closed_at FLOAT)",
        "CREATE TABLE pool_ask (id TEXT NOT NULL PRIMARY KEY, "
        "pool TEXT NOT NULL REFERENCES pool (id), user_name TEXT NOT NULL, "
        "user_groups TEXT NOT NULL, since FLOAT NOT NULL, closed_at FLOAT)",
        "CREATE TABLE booking (id TEXT NOT NULL PRIMARY KEY, user_group TEXT NOT NULL, "
        "profile TEXT NOT NULL, count INTEGER NOT NULL, starts_at FLOAT NOT NULL, "
        "ends_at FLOAT NOT NULL, tenant TEXT NOT NULL, closed_at FLOAT)",
        "CREATE INDEX ix_desktop_pool ON desktop (pool)",
        "CREATE INDEX ix_pool_session_pool ON pool_session (pool)",
        "CREATE UNIQUE INDEX pool_name_once ON pool (name) WHERE closed_at IS NULL",
        "CREATE UNIQUE INDEX desktop_name_once ON desktop (name) WHERE closed_at IS NULL",
        "CREATE UNIQUE INDEX pool_session_once ON pool_session (desktop) WHERE closed_at IS NULL",
        "CREATE UNIQUE INDEX pool_ask_once ON pool_ask (pool, user_name) WHERE closed_at IS NULL",
    ):
        connection.exec_driver_sql(statement)


def _images(connection: Connection) -> None:
    """Version 6, too: disk images in versions, and where their copies lie."""
    for statement in (
        "CREATE TABLE image (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, "
        "version TEXT NOT NULL, format TEXT NOT NULL, virtual_bytes BIGINT NOT NULL, "
        "file_bytes BIGINT NOT NULL, sha256 TEXT NOT NULL, source TEXT NOT NULL, "
        "created_at FLOAT NOT NULL, retired_at FLOAT)",
        "CREATE TABLE image_copy (id TEXT NOT NULL PRIMARY KEY, "
        "image TEXT NOT NULL REFERENCES image (id), host TEXT NOT NULL, pool TEXT NOT NULL, "
        "state TEXT NOT NULL, verified_at FLOAT NOT NULL, gone_at FLOAT)",
        "CREATE UNIQUE INDEX image_version_once ON image (name, version)",
        "CREATE UNIQUE INDEX image_copy_once ON image_copy (image, host, pool) "
        "WHERE gone_at IS NULL",
    ):
        connection.exec_driver_sql(statement)


def _tickets(connection: Connection) -> None:
    """Version 6, too: who asked to connect to a VM."""
    for statement in (
        "CREATE TABLE ticket (id TEXT NOT NULL PRIMARY KEY, "
        'vm_id TEXT NOT NULL REFERENCES vm (id), vm TEXT NOT NULL, "user" TEXT NOT NULL, '
        "machine TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL, asked_at FLOAT NOT NULL, "
        "address TEXT NOT NULL, answer TEXT NOT NULL, opened_at FLOAT, connected_at FLOAT, "
        "closed_at FLOAT, code TEXT NOT NULL, why TEXT NOT NULL, next TEXT NOT NULL)",
        "CREATE INDEX ticket_open ON ticket (asked_at) WHERE closed_at IS NULL",
    ):
        connection.exec_driver_sql(statement)


def _desktops(connection: Connection) -> None:
    for step in (_pools, _images, _tickets):
        step(connection)


def _askers(connection: Connection) -> None:
    """Version 7: whose programs may connect by a ticket."""
    connection.exec_driver_sql("ALTER TABLE ticket ADD COLUMN uids TEXT NOT NULL DEFAULT ''")


def _operations_left(connection: Connection) -> None:
    """Version 8: until when an operation is left to the person who interrupted it."""
    connection.exec_driver_sql("ALTER TABLE operation ADD COLUMN left_until FLOAT")


def _logoff_moves(connection: Connection) -> None:
    """Version 9: moves that wait until a user has logged off."""
    for statement in (
        "CREATE TABLE logoff_move (id TEXT NOT NULL PRIMARY KEY, "
        "vm_id TEXT NOT NULL REFERENCES vm (id), vm TEXT NOT NULL, user_name TEXT NOT NULL, "
        "host TEXT NOT NULL, leaves TEXT NOT NULL, takes TEXT NOT NULL, why TEXT NOT NULL, "
        "asked_at FLOAT NOT NULL, closed_at FLOAT, outcome TEXT NOT NULL)",
        "CREATE UNIQUE INDEX logoff_move_once ON logoff_move (vm_id) WHERE closed_at IS NULL",
    ):
        connection.exec_driver_sql(statement)


def _refusals(connection: Connection) -> None:
    """Version 10: what GPUs and hosts refused."""
    number = "INTEGER NOT NULL" if connection.dialect.name == "sqlite" else "SERIAL"
    for statement in (
        f"CREATE TABLE refusal (id {number} PRIMARY KEY, at FLOAT NOT NULL, host TEXT NOT NULL, "
        "gpu TEXT NOT NULL, vm TEXT NOT NULL, operation TEXT NOT NULL, task TEXT NOT NULL, "
        "what TEXT NOT NULL, why TEXT NOT NULL, counts BOOLEAN NOT NULL, "
        "if_taken BOOLEAN NOT NULL, until FLOAT NOT NULL, closed_at FLOAT)",
        "CREATE INDEX ix_refusal_operation ON refusal (operation)",
        "CREATE INDEX refusal_open ON refusal (at) WHERE closed_at IS NULL",
    ):
        connection.exec_driver_sql(statement)


def _withheld(connection: Connection) -> None:
    """Version 11: cloud-init text lives as long as its VM, queue entry or pool."""
    request = table("request", column("id"), column("spec"))
    withhold(connection, request, true())
    for name, closed in (("vm", "deleted_at"), ("queue", "closed_at"), ("pool", "closed_at")):
        rows = table(name, column("id"), column("spec"), column(closed))
        withhold(connection, rows, rows.c[closed].is_not(None))
    step = table("step", *map(column, ("task", "seq", "kind", "args")))
    seeds = select(step).where(step.c.kind == "CreateSeed")
    for row in connection.execute(seeds).all():
        it = (step.c.task == row.task) & (step.c.seq == row.seq)
        rewrite(connection, step, it, "args", row.args)


def _actors(connection: Connection) -> None:
    """Version 12: for whom something was done, how it was known who did it, what it takes."""
    for statement in (
        "ALTER TABLE operation ADD COLUMN tenant TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE operation ADD COLUMN method TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE audit ADD COLUMN tenant TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE audit ADD COLUMN method TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE audit ADD COLUMN address TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE audit ADD COLUMN credential TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE audit ADD COLUMN consumption TEXT NOT NULL DEFAULT '{}'",
    ):
        connection.exec_driver_sql(statement)


def _seals(connection: Connection) -> None:
    """Version 17: the seal of the audit trail."""
    for statement in (
        "CREATE TABLE seal (leaf INTEGER NOT NULL PRIMARY KEY, seq INTEGER NOT NULL UNIQUE, "
        "hash TEXT NOT NULL)",
        "CREATE TABLE checkpoint (size INTEGER NOT NULL PRIMARY KEY, at FLOAT NOT NULL, "
        "root TEXT NOT NULL, edge TEXT NOT NULL, note TEXT NOT NULL)",
    ):
        connection.exec_driver_sql(statement)


def _api_tickets(connection: Connection) -> None:
    """Version 18: console tickets of the API."""
    for statement in (
        "ALTER TABLE ticket ADD COLUMN kind TEXT NOT NULL DEFAULT 'screen'",
        "ALTER TABLE ticket ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE ticket ADD COLUMN login TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE ticket ADD COLUMN generation INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE ticket ADD COLUMN expires_at FLOAT",
        "CREATE INDEX ix_ticket_digest ON ticket (digest)",
    ):
        connection.exec_driver_sql(statement)


def _webhooks(connection: Connection) -> None:
    """Version 19: webhooks."""
    for statement in (
        "CREATE TABLE webhook (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
        "tenant TEXT NOT NULL DEFAULT '', url TEXT NOT NULL, events TEXT NOT NULL, "
        "cursor INTEGER NOT NULL, failures INTEGER NOT NULL, retry_at FLOAT, paused_at FLOAT, "
        "why TEXT NOT NULL, delivered_at FLOAT, created_at FLOAT NOT NULL, "
        "created_by TEXT NOT NULL)",
        "CREATE INDEX ix_webhook_tenant ON webhook (tenant)",
    ):
        connection.exec_driver_sql(statement)


def _api_requests(connection: Connection) -> None:
    """Version 14: requests over HTTP that changed something."""
    for statement in (
        "CREATE TABLE api_request (user_name TEXT NOT NULL, key TEXT NOT NULL, "
        "digest TEXT NOT NULL, endpoint TEXT NOT NULL, attempt TEXT NOT NULL, "
        "operation TEXT NOT NULL, begun_at FLOAT NOT NULL, ended_at FLOAT, "
        "answer TEXT NOT NULL DEFAULT '{}', PRIMARY KEY (user_name, key))",
        "CREATE INDEX ix_api_request_operation ON api_request (operation)",
    ):
        connection.exec_driver_sql(statement)


def _snapshots(connection: Connection) -> None:
    """Version 21: the snapshots of a VM's disks."""
    connection.exec_driver_sql("ALTER TABLE vm ADD COLUMN snapshots TEXT")


def _gpu_health(connection: Connection) -> None:
    """Version 22: what GPUs' readings and Xids said of their health."""
    connection.exec_driver_sql("ALTER TABLE gpu ADD COLUMN health TEXT NOT NULL DEFAULT ''")


def _price_books(connection: Connection) -> None:
    """Version 24: what GPUs cost, and from when on."""
    connection.exec_driver_sql(
        "CREATE TABLE price_book (begins_at FLOAT NOT NULL PRIMARY KEY, "
        "prices TEXT NOT NULL, set_at FLOAT NOT NULL)"
    )


def _licences(connection: Connection) -> None:
    """Version 26: the seats of licences' editions."""
    connection.exec_driver_sql(
        "CREATE TABLE licence (edition TEXT NOT NULL PRIMARY KEY, "
        "seats INTEGER NOT NULL, generation INTEGER NOT NULL)"
    )


def _notifications(connection: Connection) -> None:
    """Version 28: who is told of what, and the holidays of their hours and of pools'."""
    connection.exec_driver_sql(
        "CREATE TABLE notification (name TEXT NOT NULL PRIMARY KEY, rule TEXT NOT NULL, "
        "cursor INTEGER NOT NULL, sent_at FLOAT, mails INTEGER NOT NULL, "
        "failures INTEGER NOT NULL, "
        "retry_at FLOAT, paused_at FLOAT, why TEXT NOT NULL)"
    )
    connection.exec_driver_sql(
        "CREATE TABLE calendar (name TEXT NOT NULL PRIMARY KEY, days TEXT NOT NULL)"
    )


# Version a step starts from → the step, in words that both databases know. A step once shipped
# never changes, whatever becomes of the tables later.
STEPS: Mapping[int, Callable[[Connection], None]] = MappingProxyType(
    {
        1: _vfs_and_layouts,
        2: _two_hosts,
        3: _trail_and_freeze,
        4: _queue_and_quotas,
        5: _desktops,
        6: _askers,
        7: _operations_left,
        8: _logoff_moves,
        9: _refusals,
        10: _withheld,
        11: _actors,
        12: access_tables,
        13: _api_requests,
        14: tenant_columns,
        15: name_indexes,
        16: _seals,
        17: _api_tickets,
        18: secret_table,
        19: _webhooks,
        20: _snapshots,
        21: _gpu_health,
        22: flavour_table,
        23: _price_books,
        24: backup_tables,
        25: _licences,
        26: power_tables,
        27: _notifications,
        28: guest_column,
        29: nic_functions_column,
        30: profile_disk_table,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """From which schema to which; ``backup`` is None on a server, or where nothing was to do."""

    before: int
    after: int
    backup: Path | None = None


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
    if path is not None:
        wipe(path)
    return Migration(before=before, after=SCHEMA_VERSION, backup=backup)


def empty_log(path: Path, where: str) -> None:
    """Have all that was written in the file itself; LedgerError where the disk has no room for it.
    Closing the file does the same, and is silent where it fails.
    """
    with database_errors(where), _plain(path) as file:
        file.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


def wipe(path: Path) -> None:
    """Write the file anew without what was deleted from it, and empty its log."""
    try:
        with database_errors(str(path)), _plain(path) as file:
            file.exec_driver_sql("VACUUM")
        empty_log(path, str(path))
    except LedgerError as error:
        raise LedgerError(
            f"the ledger {path} is in today's schema, but its file was not rewritten: "
            "what was deleted from it may still be read there",
            why=f"{error.message}: {error.why}",
            next=f"{error.next}; then vgpumgr store migrate",
        ) from error


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
    with database_errors(str(path)):
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
