"""A ledger as an object: what a backup, a check, a restore or a move of it found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vgpumgr.model.freeze import Freeze


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A copy of a ledger. ``sha256`` is of the file; it is also in the file's ``….sha256``."""

    path: Path
    sha256: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    """What a backup says of itself. ``last`` is when it was last written (Unix seconds)."""

    fleet: str
    epoch: int
    last: float | None
    summed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """``kept`` is where what was replaced lies now; None where there was nothing to keep."""

    rows: int
    epoch: int
    kept: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is not as it has to be, and what to type."""

    what: str
    why: str
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a ledger says of itself, and what is wrong with it."""

    where: str
    schema: int
    fleet: str
    epoch: int
    frozen: Freeze | None
    open_operations: int
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A ledger that lies somewhere else now."""

    source: str
    target: str
    rows: int
    epoch: int
