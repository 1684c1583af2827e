"""Restoring: what a backup holds becomes the ledger, in one transaction.

A ledger that went back in time knows less than the hosts: it comes back frozen, in an epoch above
every one it ever had, and what it replaces is kept.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, func, select, update

from vgpumgr.model.errors import Conflict, LedgerError
from vgpumgr.model.keeping import BackupFacts, Restored
from vgpumgr.store import audit, freeze
from vgpumgr.store.audit import Stamp
from vgpumgr.store.backup import digest_path, sha256, write_backup
from vgpumgr.store.claims import Claims
from vgpumgr.store.copying import clear, copy_all, is_fresh
from vgpumgr.store.database import Database, file_database
from vgpumgr.store.migrate import migrate
from vgpumgr.store.opening.tables import refuse_newer, schema_version
from vgpumgr.store.redaction import owe
from vgpumgr.store.schema import SCHEMA_VERSION, meta, operation
from vgpumgr.store.soundness import damages

_PATIENCE_S = 15.0


@contextmanager
def opened(path: Path) -> Iterator[tuple[Database, BackupFacts]]:
    """A backup that is whole, in today's schema; LedgerError otherwise. The file stays as it is."""
    summed = _check_sum(path)
    with tempfile.TemporaryDirectory(prefix="vgpumgr-restore-") as folder:
        copy = Path(folder) / "ledger"
        shutil.copy(path, copy)  # opening would write beside it, and migrating into it
        database = file_database(str(copy), _PATIENCE_S)
        try:
            with database.read() as connection:
                version = schema_version(connection, str(path))
                _require_sound(connection, path)
            refuse_newer(version, str(path))
            if version < SCHEMA_VERSION:
                migrate(database, None)
            with database.read() as connection:
                yield database, _facts(connection, summed)
        finally:
            database.close()


def restore(
    source: Database, target: Database, claims: Claims, kept: Path, stamp: Stamp, why: str
) -> Restored:
    """Replace all that ``target`` holds; it is frozen for ``why``.

    What it held is written to ``kept`` first (or a like name that is free). Conflict when another
    process works with it, or when it is another fleet's.
    """
    with source.read() as backup, target.write() as present:
        require_nobody(claims)
        _require_same_fleet(backup, present)
        saved = None if is_fresh(present) else write_backup(present, _free(kept)).path
        highest = max(_epoch(backup), _epoch(present))
        clear(present)
        owe(present)
        copied = copy_all(backup, present)
        present.execute(update(operation).values(worker=""))
        present.execute(update(meta).values(frozen_why="", frozen_at=None))
        epoch = freeze.raise_epoch(present, highest + 1, stamp)
        freeze.freeze(present, why, stamp)
        audit.write(present, stamp, [{"event": "store.restored", "after": epoch, "detail": why}])
    return Restored(rows=sum(rows for rows, _ in copied.values()), epoch=epoch, kept=saved)


def require_nobody(claims: Claims) -> None:
    """Conflict while another process works with the ledger."""
    others = claims.others()
    if others:
        raise Conflict(
            "the ledger is in use",
            why=", ".join(others[:5]),
            next="stop vgpumgr serve everywhere, let running commands "
            "end, then run the same command again",
        )


def move_aside(path: Path) -> Path:
    """Put a file that is no ledger any more out of the way, its logs with it."""
    aside = _free(path.with_name(f"{path.name}.broken"))
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return aside


def _check_sum(path: Path) -> bool:
    """Does a sum lie beside it? LedgerError when it is another's."""
    try:
        found = sha256(path)
        wanted = digest_path(path).read_text().split() if digest_path(path).exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"{path} cannot be read", why=str(error), next=f"ls -l {path}") from error
    if wanted and wanted[0] != found:
        raise LedgerError(
            f"{path} is not the backup that was made",
            why=f"its SHA-256 is {found}, {digest_path(path).name} says {wanted[0]}",
            next="take another backup; or, if it was changed on purpose, remove the .sha256 file",
        )
    return bool(wanted)


def _require_sound(connection: Connection, path: Path) -> None:
    for problem in damages(connection):
        raise LedgerError(
            f"the backup {path} is damaged",
            why=f"{problem.what}: {problem.why}",
            next="take another backup",
        )


def _facts(connection: Connection, summed: bool) -> BackupFacts:
    row = connection.execute(select(meta.c.fleet_id, meta.c.epoch)).one()
    last = connection.execute(select(func.max(operation.c.started_at))).scalar()
    return BackupFacts(fleet=row.fleet_id, epoch=row.epoch, last=last, summed=summed)


def _require_same_fleet(backup: Connection, present: Connection) -> None:
    theirs, ours = (
        each.execute(select(meta.c.fleet_id)).scalar_one() for each in (backup, present)
    )
    if theirs != ours and not is_fresh(present):
        raise Conflict(
            "the backup is of another fleet",
            why=f"it belongs to fleet {theirs}, the ledger to fleet {ours}",
            next="restore it into a ledger of its own: vgpumgr --ledger PATH store restore FILE",
        )


def _epoch(connection: Connection) -> int:
    return int(connection.execute(select(meta.c.epoch)).scalar_one())


def _free(path: Path) -> Path:
    names = (path.with_name(f"{path.name}{f'-{n}' if n else ''}") for n in count())
    return next(each for each in names if not each.exists())
