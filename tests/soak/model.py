"""What must be true of each VM, as far as its commands' ends tell.

A command that ended well leaves one possibility. One that was struck leaves both: as before, and
as wanted. What is seen next decides, and has to be one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from vgpumgr.model.vm import VmRecord, VmSpec

NAMES = ("a", "b", "c", "d", "e")
# No VM is ever called so.
NOBODY = "x"


@dataclass(frozen=True)
class Vm:
    """A VM that is there. ``host`` None: wherever placement put it."""

    spec: VmSpec
    running: bool
    host: str | None = None

    def covers(self, seen: Vm) -> bool:
        """Is what was seen this one?"""
        return replace(self, host=seen.host) == seen if self.host is None else self == seen


State = Vm | None
States = tuple[State, ...]


@dataclass
class Model:
    """By name: what may be so. ``None`` among the possibilities: there is no such VM."""

    possible: dict[str, States] = field(
        default_factory=lambda: dict.fromkeys((*NAMES, NOBODY), (None,))
    )

    def present(self, name: str) -> Iterator[Vm]:
        """The possibilities in which it exists."""
        return (each for each in self.possible[name] if each is not None)

    def last_spec(self, name: str) -> VmSpec | None:
        """What it looks like, if it may be there."""
        return next((each.spec for each in self.present(name)), None)

    def ended(self, name: str, states: States, *, well: bool) -> None:
        """A command on it ended: ``states`` is what it was to lead to."""
        before = () if well else self.possible[name]
        self.possible[name] = (*before, *(each for each in states if each not in before))

    def see(self, name: str, seen: VmRecord | None, *, unfinished: bool) -> None:
        """Compare with the ledger. ``unfinished``: an open operation may still change it."""
        now = Vm(seen.spec, seen.running, seen.host) if seen else None
        if seen is not None and seen.state != "active":
            assert unfinished, f"{name} is {seen.state}, and no open operation works on it"
            return
        allowed = self.possible[name]
        fits = any(_covers(each, now) for each in allowed)
        assert fits, f"{name} is {now}, expected one of {allowed}"
        if not unfinished:
            self.possible[name] = (now,)


def _covers(allowed: State, seen: State) -> bool:
    return allowed.covers(seen) if allowed is not None and seen is not None else allowed is seen
