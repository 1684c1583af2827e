"""Steps on a host itself: GPU partitions changed and kept, helper and fleet mark installed and
removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vgpumgr import layout
from vgpumgr.engine.steps.step import Step
from vgpumgr.model import formats
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class KeepLayout(Step):
    """Have the host write down what its boots are to bring back, before anything changes.

    ``device`` is the PF's address, ``gpu`` our key and ``generation`` the GPU's; ``parts`` as the
    helper's ``layout_claim`` takes them.
    """

    device: str
    gpu: str
    generation: int
    layout: str
    parts: Mapping[str, object]

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"keep layout {self.layout} of {self.device} for the host's next boot"

    def look(self, host: Host) -> Observed:
        """Is it there, under this generation?"""
        there = self.claim_on(host)
        unit = formats.layout_claim(self.device)
        return InState() if there == self.claim else Differs(f"{unit} is {there}")

    def act(self, host: Host, clock: Clock) -> None:
        """Write it; the helper reads back before it answers."""
        self.write(host)

    def write(self, host: Host) -> None:
        """Have the host write it down."""
        args = {"gpu": self.device, "claim": self.claim, **self.parts}
        host.helper.call("layout_claim", args)

    @property
    def claim(self) -> dict[str, object]:
        """The claim that the helper writes."""
        return {"allocation": self.gpu, "generation": self.generation, "vm": self.layout}

    def claim_on(self, host: Host) -> dict[str, object] | None:
        """The claim of any layout that the host keeps for the GPU; None without any."""
        found = host.helper.call("claims", {}).get("claims")
        claims = found if isinstance(found, list) else []
        unit = formats.layout_claim(self.device)
        there = next((each for each in claims if each["unit"] == unit), None)
        return there and {name: there[name] for name in self.claim}


@dataclass(frozen=True, slots=True)
class ChangePart(Step):
    """``change`` is a PartChange as ``layout.to_plain`` writes it, ``device`` the PF's address."""

    device: str
    change: Mapping[str, object]

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"{layout.summary(layout.from_plain(self.change))} on {self.device}"

    def look(self, host: Host) -> Observed:
        """Is this part in the wanted state?"""
        return layout.look(host.helper, self.device, layout.from_plain(self.change))

    def act(self, host: Host, clock: Clock) -> None:
        """Change it; the helper reads back before it answers."""
        layout.act(host.helper, self.device, layout.from_plain(self.change))


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
        unit = formats.layout_claim(self.kept.device)
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
