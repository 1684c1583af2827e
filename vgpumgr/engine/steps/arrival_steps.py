"""Steps on the target host of a move: the definition there, and power after a cold move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.engine.steps.departure_steps import refuse_running
from vgpumgr.engine.steps.domain_steps import RedefineDomain, StartDomain, find_ours
from vgpumgr.engine.steps.step import StepSurroundings, TwoHostStep
from vgpumgr.model.domain import OFF
from vgpumgr.model.operation import InState, Observed, Unknown
from vgpumgr.model.ports import Host


@dataclass(frozen=True, slots=True)
class StartMoved(TwoHostStep):
    """Start the VM where it went, while it is off where it was."""

    settles: ClassVar[bool] = True

    name: str
    vm_id: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"start domain {self.name}"

    def look(self, source: Host, target: Host) -> Observed:
        """Does it run there, and there alone?"""
        there = StartDomain(self.name, self.vm_id).look(target)
        here = find_ours(source, self.name, self.vm_id)
        if isinstance(there, InState) and here and here.state not in OFF:
            return both_run(self.name, source, target)
        return there

    def act(self, source: Host, target: Host, around: StepSurroundings) -> None:
        """Start it; Conflict when it was started on its former host."""
        refuse_running(source, self.name, self.vm_id)
        StartDomain(self.name, self.vm_id).act(target, around.clock)

    def undo(self, source: Host, target: Host) -> None:
        """It does not run there: once it does, the move is settled."""


@dataclass(frozen=True, slots=True)
class ConfirmMoved(RedefineDomain):
    """The definition that stays on the target, its autostart, and what it runs with.

    libvirt takes the definition over with the running domain; it is read back, because a target
    that keeps the devices of another host is found at its next start only (CVE-2020-17376).
    """

    devices: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"confirm domain {self.name}"

    def look(self, host: Host) -> Observed:
        """Is the definition as sent, and does it run with the devices made for it?"""
        seen = RedefineDomain.look(self, host)
        found = find_ours(host, self.name, self.vm_id)
        if not isinstance(seen, InState) or found is None or found.state in OFF:
            return seen
        if set(found.devices) != set(self.devices):
            has = ", ".join(found.devices) or "none"
            return Unknown(f"it runs with the devices {has}, not {', '.join(self.devices)}")
        return seen


def both_run(name: str, source: Host, target: Host) -> Unknown:
    """The error for a VM that runs on both hosts: an operator has to decide which one is right."""
    return Unknown(
        f"{name} runs on {source.name} and on {target.name}: power off the wrong one with virsh"
    )


@dataclass(frozen=True, slots=True)
class StartReseated(StartDomain):
    """Start the domain with its new devices; what it had is given back after that."""

    settles: ClassVar[bool] = True

    def undo(self, host: Host) -> None:
        """It does not run: once it does, the move is settled."""


@dataclass(frozen=True, slots=True)
class RedefineReseated(RedefineDomain):
    """The definition of a domain that is off, with its new devices; the same."""

    settles: ClassVar[bool] = True
