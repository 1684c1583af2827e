"""What the checker answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """A broken invariant: its number, a stable word for what kind, and the particulars."""

    rule: str
    kind: str
    what: str

    @property
    def name(self) -> str:
        """``I6 lost``."""
        return f"{self.rule} {self.kind}"

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"
