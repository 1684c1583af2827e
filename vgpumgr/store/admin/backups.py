"""Backups of a ledger: written, verified, and restored.

A backup is a ledger file, whichever database holds the ledger. A ledger that went back
in time knows less than the hosts: it comes back frozen, in an epoch above every one it
ever had, and the replaced ledger is kept.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from sqlalchemy import Connection, Integer, Table, delete, func, insert, select, text, update

from vgpumgr.model.errors import Conflict, LedgerError
from vgpumgr.model.ledger_state import Backup, BackupFacts, LedgerRestored
from vgpumgr.store.admin.ledger_check import damages
from vgpumgr.store.admin.migrations import migrate
from vgpumgr.store.admin.opening import refuse_newer, schema_version
from vgpumgr.store.database.connections import Database, file_database
from vgpumgr.store.database.faults import Unwritable
from vgpumgr.store.database.ledger_file import publish
from vgpumgr.store.database.locks import ProcessLocks
from vgpumgr.store.database.redaction import owe
from vgpumgr.store.ledger import audit_trail
from vgpumgr.store.ledger import epoch as ledger_epoch
from vgpumgr.store.ledger.audit_trail import Stamp
from vgpumgr.store.schema import SCHEMA_VERSION, audit, meta, metadata, operation

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
    wanted, found = table_content(source), table_content(target)
    different = [name for name in wanted if wanted[name] != found[name]]
    if different:
        raise LedgerError(
            "the copy of the ledger differs from its source",
            why=f"{', '.join(different)} differ after reading them back",
            next="vgpumgr store check",
        )
    return wanted


def clear_tables(target: Connection) -> None:
    """Delete every row."""
    for table in reversed(metadata.sorted_tables):
        target.execute(delete(table))


def table_content(connection: Connection) -> Content:
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


_PATIENCE_S = 15.0


_DRAFT = ".backup-"


def back_up(database: Database, path: Path, *, draft: str = _DRAFT) -> Backup:
    """The ledger as it is at one moment, in a file that is complete once it is there.

    It is written in a folder next to it whose name begins with ``draft``. LedgerError when a file
    is there already, or the file cannot be made.
    """
    with database.read() as connection:
        return write_backup(connection, path, draft=draft)


def write_backup(source: Connection, path: Path, *, draft: str = _DRAFT) -> Backup:
    """The same, of what a transaction sees."""
    path = path.absolute()
    if path.exists():
        raise _taken(path)
    try:
        with tempfile.TemporaryDirectory(prefix=draft, dir=path.parent) as folder:
            made = Path(folder) / path.name
            made.touch(mode=0o600)
            rows = _fill(source, made)
            digest = sha256(made)
            _publish_with(digest, made, path)
    except Unwritable as error:
        raise LedgerError(
            f"the backup {path} cannot be created",
            why="the disk of its folder is full or cannot be written",
            next=f"df -h {path.parent}; ls -ld {path.parent}",
        ) from error
    except OSError as error:
        raise LedgerError(
            f"the backup {path} cannot be created",
            why=f"{error.strerror or error}: {error.filename}",
            next=f"df -h {path.parent}; ls -ld {path.parent}",
        ) from error
    return Backup(path=path, sha256=digest, rows=rows)


def digest_path(path: Path) -> Path:
    """Where the sum of a backup lies, as ``sha256sum -c`` takes it."""
    return path.with_name(f"{path.name}.sha256")


def sha256(path: Path) -> str:
    """Of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fill(source: Connection, path: Path) -> int:
    database = file_database(str(path), _PATIENCE_S)
    try:
        with database.write() as target:
            metadata.create_all(target)
            copied = copy_all(source, target)
    finally:
        database.close()  # the last connection takes the write-ahead log away
    return sum(count for count, _ in copied.values())


def _publish_with(digest: str, made: Path, path: Path) -> None:
    """The digest before the backup itself: one that is there is complete."""
    place = digest_path(path)
    draft = place.with_name(f".{place.name}.new")
    try:
        draft.write_text(f"{digest}  {path.name}\n")
        draft.replace(place)
        published = publish(made, path)
    except OSError:
        draft.unlink(missing_ok=True)
        place.unlink(missing_ok=True)
        raise
    if not published:
        raise _taken(path)


def _taken(path: Path) -> LedgerError:
    return LedgerError(
        f"{path} exists already",
        why="a backup never replaces another",
        next="choose another name, or move it away",
    )


# A ledger that went back in time knows less than the hosts: it comes back frozen, in an epoch above
# every one it ever had, and what it replaces is kept.


@contextmanager
def opened_backup(path: Path) -> Iterator[tuple[Database, BackupFacts]]:
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
    source: Database, target: Database, claims: ProcessLocks, kept: Path, stamp: Stamp, why: str
) -> LedgerRestored:
    """Replace all that ``target`` holds; it is frozen for ``why``.

    What it held is written to ``kept`` first (or a like name that is free). Conflict when another
    process works with it, or when it is another fleet's.
    """
    with source.read() as backup, target.write() as present:
        require_nobody(claims)
        _require_same_fleet(backup, present)
        saved = None if is_fresh(present) else write_backup(present, _free(kept)).path
        epoch = max(_epoch(backup), _epoch(present)) + 1
        first = max(_last_record(backup), _last_record(present)) + 1
        clear_tables(present)
        owe(present)
        copied = copy_all(backup, present)
        restored = {"event": "store.restored", "after": epoch, "detail": why}
        # Numbers that readers of the trail have seen already never become those of other records.
        audit_trail.write(present, stamp, [{"seq": first, **restored}])
        _set_counters(present)
        present.execute(update(operation).values(worker=""))
        present.execute(update(meta).values(frozen_why="", frozen_at=None))
        ledger_epoch.raise_epoch(present, stamp, epoch)
        ledger_epoch.freeze(present, stamp, why)
    return LedgerRestored(rows=sum(rows for rows, _ in copied.values()), epoch=epoch, kept=saved)


def require_nobody(claims: ProcessLocks) -> None:
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


def _last_record(connection: Connection) -> int:
    return int(connection.execute(select(func.coalesce(func.max(audit.c.seq), 0))).scalar_one())


def _epoch(connection: Connection) -> int:
    return int(connection.execute(select(meta.c.epoch)).scalar_one())


def _free(path: Path) -> Path:
    names = (path.with_name(f"{path.name}{f'-{n}' if n else ''}") for n in count())
    return next(each for each in names if not each.exists())
