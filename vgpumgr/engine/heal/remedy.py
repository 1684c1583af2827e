"""What can be done about one difference. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.engine.steps import Step
from vgpumgr.model.drift import Drift


class Way(StrEnum):
    """How a difference ends, in the order in which they are gone through.

    ``resume`` an operation that was cut; ``quarantine`` a GPU; ``layout`` partition it again;
    ``release`` units that nothing stands for; ``vm`` and ``clean``: steps on a host, for a VM and
    for what one left behind. ``you``: an operator must. ``leave``: it is not ours.
    """

    RESUME = "resume"
    QUARANTINE = "quarantine"
    LAYOUT = "layout"
    RELEASE = "release"
    VM = "vm"
    CLEAN = "clean"
    YOU = "you"
    LEAVE = "leave"


OURS = frozenset(Way) - {Way.YOU, Way.LEAVE}


@dataclass(frozen=True, slots=True)
class Whose:
    """The VM that steps are for, living or not: its id, and its name."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """``text`` says what would be done, or why it is not; ``next`` what to type then.

    ``steps`` and ``whose`` are set for ``vm``, ``clean`` and ``release``.
    """

    drift: Drift
    way: Way
    text: str
    next: str = ""
    steps: tuple[Step, ...] = ()
    whose: Whose | None = None

    @property
    def ours(self) -> bool:
        """Would ``heal`` do it?"""
        return self.way in OURS


def needs_you(drift: Drift, why: str, next: str = "") -> Remedy:
    """Only an operator can; ``next`` is what the difference itself advises, if not given."""
    return Remedy(drift=drift, way=Way.YOU, text=why, next=next or drift.next)
