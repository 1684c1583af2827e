"""Steps on GPU parts of a host: devices made under a claim and released, NVSwitch partitions
activated and deactivated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpumgr import gpu
from vgpumgr.engine.steps.step import Step
from vgpumgr.gpu.gpu_framework import claim_of, is_ours
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.errors import Conflict
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


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


@dataclass(frozen=True, slots=True)
class VacateDevice(ReleaseDevice):
    """Take the device of an allocation back, so that its VM gets another in its place. The ledger
    keeps its place until the VM has that one.
    """

    def undo(self, host: Host) -> None:
        """Make it again."""
        gpu.framework(self.allocation.framework).realise(host.helper, self.allocation)


@dataclass(frozen=True, slots=True)
class ActivatePartition(Step):
    """Activate the partition of a VM's whole GPUs; ``gpus`` are the physical ids it must hold.

    The claim is that of one of the allocations: the partition lives and dies with the VM.
    """

    partition: int
    gpus: tuple[int, ...]
    allocation: Allocation

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"activate NVSwitch partition {self.partition}"

    def look(self, host: Host) -> Observed:
        """Is it active, under our claim?"""
        seen = _look(host, self.partition)
        if not seen.get("active"):
            return Differs(f"partition {self.partition} is not active")
        if not is_ours(seen, self.allocation):
            raise _not_ours(self.partition, host.name)
        return InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Activate it; the helper reads back before it answers."""
        host.helper.call(
            "fabric_activate",
            {
                "partition": self.partition,
                "gpus": list(self.gpus),
                "claim": claim_of(self.allocation),
            },
        )

    def undo(self, host: Host) -> None:
        """Deactivate what stands under our claim."""
        if is_ours(_look(host, self.partition), self.allocation):
            _deactivate(host, self.partition, self.allocation)


@dataclass(frozen=True, slots=True)
class DeactivatePartition(Step):
    """Take a VM's partition back, after the VM is off."""

    partition: int
    allocation: Allocation

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"deactivate NVSwitch partition {self.partition}"

    def look(self, host: Host) -> Observed:
        """Is it free of our claim?"""
        held = is_ours(_look(host, self.partition), self.allocation)
        return Differs(f"partition {self.partition} is still claimed") if held else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Deactivate it; the helper leaves a foreign partition alone and reads back."""
        _deactivate(host, self.partition, self.allocation)


def _look(host: Host, partition: int) -> Mapping[str, object]:
    found = host.helper.call("fabric_look", {})["partitions"]
    listed = found if isinstance(found, list) else []
    return next((each for each in listed if each.get("id") == partition), {})


def _deactivate(host: Host, partition: int, allocation: Allocation) -> None:
    host.helper.call("fabric_deactivate", {"partition": partition, "claim": claim_of(allocation)})


def _not_ours(partition: int, host: str) -> Conflict:
    return Conflict(
        f"NVSwitch partition {partition} on {host} is active and not ours",
        why="another program activated it",
        next=f"vgpumgr host probe {host}",
    )
