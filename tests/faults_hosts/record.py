"""What a trial leaves behind, for the figures."""

from __future__ import annotations

from dataclasses import dataclass, field

CONTROLLER, STORE = "controller-kill", "postgres-kill"


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault, where (empty: the controller, or the store) and when, on the monotonic clock."""

    fault: str
    host: str
    begin: float
    end: float


@dataclass
class Record:
    """What a trial leaves: windows by kind, faults, restarts, and what the checker found."""

    windows: list[tuple[str, float, float]] = field(default_factory=list)
    hung: frozenset[str] = frozenset()
    faults: list[Injected] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    needs_operator: list[str] = field(default_factory=list)
    unresolved: list[str] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
