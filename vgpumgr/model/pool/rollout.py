"""How far a new image has come in a pool."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """One desktop first, then step by step. Stopped: no further. Back: the old image again."""

    CANARY = "canary"
    ROLLING = "rolling"
    DONE = "done"
    STOPPED = "stopped"
    BACK = "back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """``image`` replaces ``previous``, ``since`` when; ``why`` it stopped."""

    image: str
    previous: str
    since: float
    phase: Phase = Phase.CANARY
    why: str = ""

    @property
    def current(self) -> str:
        """The image that desktops get now, the canary apart."""
        return self.image if self.phase in {Phase.ROLLING, Phase.DONE} else self.previous
