"""Where a ledger is: a file, or a database on a server."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from vgpumgr.model.errors import LedgerError

HOW = "set ledger: to a file path, or to postgresql://USER@HOST/DATABASE"


def file_path(url: str | Path) -> Path | None:
    """The ledger's file, without symbolic links on the way; None where a server keeps it."""
    if isinstance(url, Path) or "://" not in url:
        return _real(Path(url).expanduser())
    parsed = parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _real(Path(parsed.database or ""))
    return None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def parse(url: str) -> URL:
    """The parts of an SQLAlchemy URL; LedgerError for what is none."""
    try:
        return make_url(url)
    except ArgumentError as error:
        raise LedgerError(
            "the ledger's address is not understood", why=str(error), next=HOW
        ) from error


def as_psql(url: URL) -> str:
    """The address as psql takes it, without any password."""
    plain = url.set(drivername="postgresql", password=None).difference_update_query(["password"])
    return plain.render_as_string()
