"""Steps of a host that joins or leaves a fleet: helper and fleet mark, put there and removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.engine.steps.step import Step
from vgpumgr.model.operation import Differs, InState, Observed
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
        """Is the installed helper this program's version?"""
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


@dataclass(frozen=True, slots=True)
class LeaveFleet(Step):
    """Remove the fleet's mark and state from the host; from then on the task only goes forward."""

    settles: ClassVar[bool] = True

    fleet: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return "remove this fleet's mark and state"

    def look(self, host: Host) -> Observed:
        """Is the fleet's mark gone, and the state with it where no other fleet is left?"""
        found = host.installation.look()
        ours = self.fleet in found.fleets or (found.state and not found.fleets)
        return Differs("the host keeps state of this fleet") if ours else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Refused (InUse) while a VM's claim is there."""
        host.helper.call("forget", {})

    def undo(self, host: Host) -> None:
        """Write the mark again: the removal did not happen, or not wholly."""
        host.helper.call("fleet_join", {})


@dataclass(frozen=True, slots=True)
class RemoveHelper(Step):
    """The helper of a host that no other fleet has enrolled."""

    @property
    def summary(self) -> str:
        """A line for people."""
        return "remove the helper"

    def look(self, host: Host) -> Observed:
        """Is it gone, or another's to keep?"""
        found = host.installation.look()
        ours = found.helper and not found.fleets
        return Differs("the helper is there") if ours else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Remove it, with its sudo rule."""
        if isinstance(self.look(host), Differs):
            host.installation.remove()
