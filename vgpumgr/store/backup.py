"""Backups: a backup is a ledger file, whichever database keeps the ledger."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from sqlalchemy import Connection

from vgpumgr.model.errors import LedgerError
from vgpumgr.model.keeping import Backup
from vgpumgr.store.copying import copy_all
from vgpumgr.store.database import Database, file_database
from vgpumgr.store.publish import publish
from vgpumgr.store.schema import metadata

_PATIENCE_S = 15.0


def back_up(database: Database, path: Path) -> Backup:
    """The ledger as it is at one moment, in a file that is complete once it is there.

    LedgerError when something is there already, or the file cannot be made.
    """
    with database.read() as connection:
        return write_backup(connection, path)


def write_backup(source: Connection, path: Path) -> Backup:
    """The same, of what a transaction sees."""
    path = path.absolute()
    if path.exists():
        raise _taken(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=path.parent) as folder:
            made = Path(folder) / path.name
            made.touch(mode=0o600)
            rows = _fill(source, made)
            digest = sha256(made)
            _write_digest(path, digest)
            if not publish(made, path):
                raise _taken(path)
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


def _write_digest(path: Path, digest: str) -> None:
    """Before the backup itself: one that is there is complete."""
    place = digest_path(path)
    made = place.with_name(f".{place.name}.new")
    made.write_text(f"{digest}  {path.name}\n")
    made.replace(place)


def _taken(path: Path) -> LedgerError:
    return LedgerError(
        f"{path} exists already",
        why="a backup never replaces another",
        next="choose another name, or move it away",
    )
