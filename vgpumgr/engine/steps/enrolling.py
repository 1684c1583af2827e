"""A host comes into the fleet: the helper is put there, then the host marked as ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.engine.steps.base import Step
from vgpumgr.model.observed import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class InstallHelper(Step):
    """``fresh``: there was none before, so that it may be taken away again."""

    atomic: ClassVar[bool] = False

    fresh: bool

    @property
    def summary(self) -> str:
        """A line for people."""
        return "install the helper"

    def look(self, host: Host) -> Observed:
        """Is it there, and the one that we bring along?"""
        current = host.installation.look().current
        return InState() if current else Differs("this vgpumgr's helper is not there")

    def act(self, host: Host, clock: Clock) -> None:
        """Install it, in the place of any other; it must answer."""
        host.installation.install()

    def undo(self, host: Host) -> None:
        """Take away what we brought, unless another fleet has come to use it."""
        if not self.fresh:
            return
        found = host.installation.look()
        if found.helper and not found.fleets:
            host.installation.remove()


@dataclass(frozen=True, slots=True)
class JoinFleet(Step):
    """The mark of our fleet keeps others from taking the helper away."""

    fleet: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return "mark the host as this fleet's"

    def look(self, host: Host) -> Observed:
        """Is the mark there?"""
        there = self.fleet in host.installation.look().fleets
        return InState() if there else Differs("the host has no mark of this fleet")

    def act(self, host: Host, clock: Clock) -> None:
        """Mark it; then a probe must be answered."""
        host.helper.call("fleet_join", {})
        host.probe()

    def undo(self, host: Host) -> None:
        """Take the mark away, and the state that only we had there."""
        host.helper.call("fleet_leave", {})
