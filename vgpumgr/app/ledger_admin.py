"""Administration of the ledger: backup, restore, check and migration to another database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.app.actor import actor
from vgpumgr.model.errors import UsageError

if TYPE_CHECKING:
    from vgpumgr.app.config import Config
    from vgpumgr.model.ledger_state import (
        Backup,
        BackupFacts,
        KeptBackup,
        LedgerCheck,
        LedgerMoved,
        LedgerProblem,
        LedgerRestored,
    )


def back_up(config: Config, path: Path) -> Backup:
    """The ledger as it is now, in a new file."""
    from vgpumgr.store.admin import maintenance

    return maintenance.back_up(config.ledger, path)


def keep_backup(config: Config, folder: Path, at: float) -> Backup:
    """A backup in the folder of the setting ``backup_to``, of which ``backup_keep`` stay."""
    from vgpumgr.store.admin import maintenance

    return maintenance.keep_backup(config.ledger, folder, config.backup_keep, at)


def kept_backups(folder: Path, fleet: str) -> tuple[KeptBackup, ...]:
    """The backups of this fleet in a folder, the oldest first."""
    from vgpumgr.store.admin import kept_backups

    return kept_backups.kept_backups(folder, fleet)


def is_missing(config: Config) -> bool:
    """Is the ledger a file that is not there?"""
    from vgpumgr.store.admin.opening import file_path

    path = file_path(config.ledger)
    return path is not None and not path.exists()


def restore(config: Config, path: Path, confirm: Callable[[BackupFacts], None]) -> LedgerRestored:
    """A backup in the ledger's place, frozen; ``confirm`` raises to refuse."""
    from vgpumgr.store.admin import maintenance

    return maintenance.restore_ledger(config.ledger, path, by=actor(), confirm=confirm)


def check(config: Config) -> LedgerCheck:
    """Every problem of the ledger."""
    from vgpumgr.engine.steps.step import from_record
    from vgpumgr.store.admin import maintenance

    return maintenance.check(config.ledger, from_record)


def exposed(config: Config) -> tuple[LedgerProblem, ...]:
    """How others on this machine can get at the ledger."""
    from vgpumgr.store.admin import maintenance

    return maintenance.exposed(config.ledger)


def move(source: str, target: str) -> LedgerMoved:
    """A ledger carried into a database that has none; a password in an address is refused."""
    from vgpumgr.store.admin import maintenance

    for address in (source, target):
        _refuse_password(address)
    return maintenance.move_ledger(source, target, by=actor())


def _refuse_password(address: str) -> None:
    user, at, _ = address.partition("://")[2].rpartition("@")
    if (at and ":" in user) or "password=" in address:
        raise UsageError(
            "an address on the command line may not hold a password",
            why="every user of this machine can read it in the list of processes",
            next="put HOST:PORT:DATABASE:USER:PASSWORD into ~/.pgpass (mode 0600)",
        )
