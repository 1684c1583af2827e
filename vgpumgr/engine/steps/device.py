"""GPU parts on the host: created under a claim, released by presenting it."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr import gpu
from vgpumgr.engine.steps.base import Step
from vgpumgr.model.observed import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.vm import Allocation


@dataclass(frozen=True, slots=True)
class RealiseDevice(Step):
    """Make the device of an allocation."""

    allocation: Allocation

    @property
    def summary(self) -> str:
        """A line for people."""
        return (
            f"create {self.allocation.profile} on "
            f"{self.allocation.parent or self.allocation.device}"
        )

    def look(self, host: Host) -> Observed:
        """Is it there under our claim?"""
        return gpu.framework(self.allocation.framework).look(host.helper, self.allocation)

    def act(self, host: Host, clock: Clock) -> None:
        """Make it; the helper reads back before it answers."""
        gpu.framework(self.allocation.framework).realise(host.helper, self.allocation)

    def undo(self, host: Host) -> None:
        """Take back what stands under our claim; without one, nothing there is ours."""
        framework = gpu.framework(self.allocation.framework)
        if framework.holds(host.helper, self.allocation):
            framework.release(host.helper, self.allocation)


@dataclass(frozen=True, slots=True)
class ReleaseDevice(Step):
    """Take the device of an allocation back."""

    allocation: Allocation

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"release {self.allocation.profile} {self.allocation.device}"

    def look(self, host: Host) -> Observed:
        """Is it gone, and its claim with it?"""
        framework = gpu.framework(self.allocation.framework)
        held = framework.holds(host.helper, self.allocation)
        return Differs(f"{self.allocation.device} is still claimed") if held else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Release it; the helper reads back before it answers."""
        gpu.framework(self.allocation.framework).release(host.helper, self.allocation)
