"""The ledger as a whole: freeze after a rollback, rows regained from hosts, backups, checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vgpumgr.model.allocation import Allocation
from vgpumgr.model.errors import Frozen
from vgpumgr.model.vm import VmRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Why nothing may be allocated, and since when (Unix seconds)."""

    why: str
    at: float

    def refusal(self, what: str = "nothing is allocated or started") -> Frozen:
        """The error for what may not be done meanwhile."""
        return Frozen(f"the ledger is frozen: {what}", why=self.why, next="vgpumgr store thaw")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What a ledger ever knew: the generations of VMs, allocations and GPUs by id, those of
    closed rows included.
    """

    fleet: str
    epoch: int
    vms: Mapping[str, int] = field(default_factory=dict)
    allocations: Mapping[str, int] = field(default_factory=dict)
    gpus: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsTruth:
    """What the hosts know and the ledger does not, as its rows are to be.

    ``vms`` are new, ``changed`` replace rows of a lower generation, ``given_back`` are allocations
    that the VM's own mark, newer than ours, names no more. ``gpus`` are generations to reach at
    least. ``forgotten`` are VMs (by id) that no host shows a trace of, closed at the operator's
    word.
    """

    vms: tuple[VmRecord, ...] = ()
    changed: tuple[VmRecord, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    given_back: tuple[str, ...] = ()
    gpus: Mapping[str, int] = field(default_factory=dict)
    forgotten: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A copy of a ledger. ``sha256`` is of the file; it is also in the file's ``….sha256``."""

    path: Path
    sha256: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBackup:
    """A backup made on schedule: when it was begun (Unix seconds), its size in bytes, and whether
    the file is this user's own.
    """

    path: Path
    at: float
    size: int
    own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    """What a backup says of itself. ``last`` is when it was last written (Unix seconds)."""

    fleet: str
    epoch: int
    last: float | None
    summed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRestored:
    """``kept`` is where what was replaced lies now; None where there was nothing to keep."""

    rows: int
    epoch: int
    kept: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerProblem:
    """One thing that is not as it has to be, and what to type."""

    what: str
    why: str
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCheck:
    """What a ledger says of itself, and what is wrong with it."""

    where: str
    schema: int
    fleet: str
    epoch: int
    frozen: Freeze | None
    open_operations: int
    problems: tuple[LedgerProblem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMoved:
    """A ledger that lies somewhere else now."""

    source: str
    target: str
    rows: int
    epoch: int
