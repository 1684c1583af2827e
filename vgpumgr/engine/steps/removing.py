"""A host goes out of the fleet: its GPUs' layouts, our mark, the helper if nobody else uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.engine.steps.base import Step
from vgpumgr.engine.steps.layout import KeepLayout
from vgpumgr.model import claim_units
from vgpumgr.model.observed import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class ForgetLayout(Step):
    """The GPU stays as it is until the next boot. ``kept`` is what its host had of the layout."""

    kept: KeepLayout

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"forget layout {self.kept.layout} of {self.kept.device}"

    def look(self, host: Host) -> Observed:
        """Is there nothing kept for the GPU any more?"""
        there = self.kept.claim_on(host)
        unit = claim_units.layout(self.kept.device)
        return InState() if there is None else Differs(f"{unit} is {there}")

    def act(self, host: Host, clock: Clock) -> None:
        """Have it forgotten; none there is no error."""
        args = {"gpu": self.kept.device, "claim": self.kept.claim}
        host.helper.call("layout_forget", args)

    def undo(self, host: Host) -> None:
        """Have it kept again."""
        self.kept.write(host)


@dataclass(frozen=True, slots=True)
class LeaveFleet(Step):
    """All that is ours on the host goes; from then on it only goes forward."""

    settles: ClassVar[bool] = True

    fleet: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return "remove this fleet's mark and state"

    def look(self, host: Host) -> Observed:
        """Is our mark gone, and the state with it where nobody else is left?"""
        found = host.installation.look()
        ours = self.fleet in found.fleets or (found.state and not found.fleets)
        return Differs("the host keeps state of this fleet") if ours else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Refused (InUse) while a VM's claim is there."""
        host.helper.call("forget", {})

    def undo(self, host: Host) -> None:
        """It did not happen, or not wholly: the mark is there again for sure."""
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
        """Take it away, with its sudo rule."""
        if isinstance(self.look(host), Differs):
            host.installation.remove()
