"""Maintenance of a ledger by its operator: backup, restore, check, and move to another database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import select, update

from vgpumgr.model.actor import Actor
from vgpumgr.model.errors import Conflict, Damaged
from vgpumgr.model.ledger_state import (
    Backup,
    BackupFacts,
    Freeze,
    LedgerCheck,
    LedgerMoved,
    LedgerProblem,
    LedgerRestored,
)
from vgpumgr.store.admin import backups, kept_backups
from vgpumgr.store.admin.backups import clear_tables, copy_all, is_fresh
from vgpumgr.store.admin.ledger_check import exposures, ledger_problems, open_operations
from vgpumgr.store.admin.opening import claims_of, file_path, none_yet, open_database
from vgpumgr.store.admin.row_check import StepReader
from vgpumgr.store.database.connections import Database
from vgpumgr.store.database.locks import FileLocks, ProcessLocks, locks_folder
from vgpumgr.store.ledger import audit_trail
from vgpumgr.store.ledger import epoch as ledger_epoch
from vgpumgr.store.ledger.audit_trail import Stamp
from vgpumgr.store.schema import meta, operation


def back_up(url: str | Path, path: Path) -> Backup:
    """Write the ledger as it is now to a new file; LedgerError when there is none."""
    with _opened(url, create=False) as (database, _):
        _require_one(database)
        return backups.back_up(database, path)


def keep_backup(url: str | Path, folder: Path, keep: int, at: float) -> Backup:
    """Write one to a folder of ``keep`` backups, of which the oldest is removed then."""
    with _opened(url, create=False) as (database, _):
        _require_one(database)
        return kept_backups.keep_backup(database, folder, keep, at)


def restore_ledger(
    url: str | Path, path: Path, *, by: str, confirm: Callable[[BackupFacts], None]
) -> LedgerRestored:
    """Put a backup in the ledger's place; ``confirm`` sees it first, and raises to refuse.

    The ledger is frozen afterwards. A file that is no ledger any more is moved aside.
    """
    with backups.opened_backup(path) as (source, facts):
        confirm(facts)
        why = f"restored from {path}"
        try:
            return _restore(url, source, Stamp.of(Actor(user=by), time.time()), why)
        except Damaged:
            file = file_path(url)
            if file is None:
                raise
            aside = _move_aside(file)
        done = _restore(url, source, Stamp.of(Actor(user=by), time.time()), why)
    return LedgerRestored(rows=done.rows, epoch=done.epoch, kept=aside)


def check(url: str | Path, read_step: StepReader | None = None) -> LedgerCheck:
    """Look at everything, change nothing; LedgerError when it cannot be read at all.

    ``read_step`` reads a step as whoever runs it would.
    """
    with _opened(url, create=False) as (database, claims), database.read() as connection:
        _require_one(database)
        is_worked_on = lambda each: claims.is_held(f"operation:{each}")  # noqa: E731
        found = tuple(ledger_problems(connection, is_worked_on, read_step))
        row = connection.execute(select(meta)).one()
        frozen = ledger_epoch.frozen(connection)
        return LedgerCheck(
            where=database.where,
            schema=row.schema_version,
            fleet=row.fleet_id,
            epoch=row.epoch,
            frozen=frozen,
            open_operations=open_operations(connection),
            problems=(*_frozen(frozen), *exposed(url), *found),
        )


def exposed(url: str | Path) -> tuple[LedgerProblem, ...]:
    """How others on this machine can get at the ledger; a server's is its own affair."""
    file = file_path(url)
    return () if file is None else tuple(exposures(file))


def move_ledger(source: str | Path, target: str | Path, *, by: str) -> LedgerMoved:
    """Carry a ledger into a database that has none; the source stays, frozen.

    The copy is read back and speaks in the next epoch: hosts refuse whoever goes on with the
    source once they have heard of it.
    """
    stamp = Stamp.of(Actor(user=by), time.time())
    with _opened(source, create=False) as (old, old_claims):
        _require_one(old)
        with _opened(target, create=True) as (new, new_claims):
            if old.where == new.where:
                raise Conflict("the ledger is there already", next="choose another target")
            return _move(old, old_claims, new, new_claims, stamp)


def _move(
    old: Database, old_claims: ProcessLocks, new: Database, new_claims: ProcessLocks, stamp: Stamp
) -> LedgerMoved:
    why = f"moved to {new.where}"
    with new.write() as target:
        if not is_fresh(target):
            raise Conflict(
                f"there is a ledger in {new.where} already",
                why="a ledger is only moved to where there is none",
                next="choose an empty database, or a path without a file",
            )
        with old.write() as source:
            backups.require_nobody(old_claims)
            backups.require_nobody(new_claims)
            clear_tables(target)
            copied = copy_all(source, target)
            target.execute(update(operation).values(worker=""))
            ledger_epoch.freeze(source, stamp, why)
        # The source's freeze is on disk: from here on nobody allocates from both.
        epoch = ledger_epoch.raise_epoch(target, stamp, 0)
        came = {"event": "store.moved", "after": epoch, "detail": f"from {old.where}"}
        audit_trail.write(target, stamp, [came])
    return LedgerMoved(
        source=old.where,
        target=new.where,
        rows=sum(rows for rows, _ in copied.values()),
        epoch=epoch,
    )


def _move_aside(file: Path) -> Path:
    """Out of the way with a file that is no ledger any more, once nobody works with it.

    The locks stay where they are: whoever waits for one meets the ledger that comes next.
    """
    claims = FileLocks(locks_folder(file))
    try:
        backups.require_nobody(claims)
        return backups.move_aside(file)
    finally:
        claims.close()


def _restore(url: str | Path, source: Database, stamp: Stamp, why: str) -> LedgerRestored:
    with _opened(url, create=True) as (target, claims):
        return backups.restore(source, target, claims, _kept(url), stamp, why)


def _kept(url: str | Path) -> Path:
    """Where the ledger that is replaced is kept: beside its file, or in the working folder."""
    file = file_path(url)
    return file.with_name(f"{file.name}.replaced") if file else Path("ledger.replaced").absolute()


def _frozen(frozen: Freeze | None) -> Iterator[LedgerProblem]:
    if frozen:
        yield LedgerProblem(what="the ledger is frozen", why=frozen.why, next="vgpumgr store thaw")


@contextmanager
def _opened(url: str | Path, *, create: bool) -> Iterator[tuple[Database, ProcessLocks]]:
    database = open_database(url, create=create)
    try:
        claims = claims_of(database, url)
        try:
            yield database, claims
        finally:
            claims.close()
    finally:
        database.close()


def _require_one(database: Database) -> None:
    if database.absent:
        raise none_yet(database.where)
