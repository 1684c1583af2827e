"""How a controller stands, for whoever asks: plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """A host's last turn. Times are Unix seconds; ``failures`` are turns in a row that failed."""

    name: str
    state: str
    why: str = ""
    turn_at: float | None = None
    took_s: float = 0.0
    failures: int = 0
    drifts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOperation:
    """An operation that has not ended; ``summary`` says what it waits for, where that is known.

    ``left_until``: until then it is left to the person who interrupted it (Unix seconds).
    """

    id: str
    kind: str
    state: str
    summary: str = ""
    left_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """``stuck`` are hosts whose turn hangs and keeps a thread; ``busy`` those being worked on.

    ``frozen`` says why the ledger may not allocate; empty where it may.
    """

    at: float
    frozen: str = ""
    hosts: tuple[HostStatus, ...] = ()
    busy: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    open_operations: tuple[OpenOperation, ...] = ()
