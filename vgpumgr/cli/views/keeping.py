"""The ledger as an object: a backup, what was restored, what a check found."""

from __future__ import annotations

from typing import Any

from vgpumgr.cli.output import fields
from vgpumgr.cli.views.ages import age
from vgpumgr.model.keeping import Backup, BackupFacts, Check, Moved, Restored

Item = dict[str, Any]


def backup_item(made: Backup) -> Item:
    """A backup."""
    return {"name": str(made.path), "sha256": made.sha256, "rows": made.rows}


def backup_text(made: Backup) -> str:
    """One line."""
    return f"backed up to {made.path}: {made.rows} rows, SHA-256 in {made.path.name}.sha256"


def restore_question(facts: BackupFacts) -> str:
    """What is about to be lost."""
    last = f"its newest operation began {age(facts.last)} ago" if facts.last else "it is empty"
    sum_ = "" if facts.summed else "; there is no .sha256 beside it"
    return (
        f"replace the ledger by this backup of fleet {facts.fleet} ({last}{sum_})? "
        "Changes since then are known to the hosts alone, and nothing is allocated until "
        "vgpumgr store thaw"
    )


def restored_item(done: Restored) -> Item:
    """What came back."""
    kept = str(done.kept) if done.kept else None
    return {"name": "ledger", "rows": done.rows, "epoch": done.epoch, "kept": kept}


def restored_text(done: Restored) -> str:
    """What came back, and what to do now."""
    kept = f"; what it replaced is kept in {done.kept}" if done.kept else ""
    return (
        f"restored {done.rows} rows, epoch {done.epoch}{kept}\n"
        "the ledger is frozen: see vgpumgr drift, then vgpumgr store thaw"
    )


def moved_item(done: Moved) -> Item:
    """A ledger that lies elsewhere now."""
    return {"name": done.target, "from": done.source, "rows": done.rows, "epoch": done.epoch}


def moved_text(done: Moved) -> str:
    """Where it lies, and what to do now."""
    return (
        f"{done.rows} rows copied and read back, epoch {done.epoch}; {done.source} stays, frozen\n"
        f"now set ledger: {done.target} on every machine that used it"
    )


def check_item(found: Check) -> Item:
    """The whole finding."""
    return {
        "name": found.where,
        "schema": found.schema,
        "fleet": found.fleet,
        "epoch": found.epoch,
        "frozen": found.frozen.why if found.frozen else None,
        "open_operations": found.open_operations,
        "problems": [
            {"what": each.what, "why": each.why, "next": each.next} for each in found.problems
        ],
    }


def check_text(found: Check) -> str:
    """The finding, each problem with the way out."""
    head = fields(
        [
            ("Ledger", found.where),
            ("Fleet", found.fleet),
            ("Schema", found.schema),
            ("Epoch", found.epoch),
            ("Frozen", found.frozen.why if found.frozen else ""),
            ("Open operations", found.open_operations),
        ]
    )
    lines = [f"{each.what}: {each.why}\n  {each.next}" for each in found.problems]
    return "\n".join([head, *(lines or ["no problem found"])])
