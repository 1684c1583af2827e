"""Steps of a move: quiet on the source, defined and started on the target, the source emptied.

The carrying itself is in ``live_migration_steps`` and ``volume_steps``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.engine.steps.domain_steps import (
    POLL_S,
    RedefineDomain,
    StartDomain,
    find_ours,
    forget,
    is_ours,
    ours_of,
    require_ours,
    state_of,
)
from vgpumgr.engine.steps.step import Step, StepSurroundings, TwoHostStep
from vgpumgr.model.domain import OFF, DomainState
from vgpumgr.model.errors import Conflict, VgpumgrError
from vgpumgr.model.operation import Differs, InState, Observed, Unknown
from vgpumgr.model.ports import Clock, Host


class NotInTime(VgpumgrError):
    """The guest was slower than the user wants to wait; all is as it was before."""

    code = "deadline.guest"
    exit_status = 9


@dataclass(frozen=True, slots=True)
class ClearAutostart(Step):
    """A host that boots while the VM moves must not start it a second time."""

    name: str
    vm_id: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"clear autostart of {self.name}"

    def look(self, host: Host) -> Observed:
        """Is it cleared?"""
        found = find_ours(host, self.name, self.vm_id)
        return Differs("autostart is on") if found and found.autostart else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Clear it."""
        host.domains.set_autostart(require_ours(host, self.name, self.vm_id), on=False)

    def undo(self, host: Host) -> None:
        """Set it again."""
        if ours := ours_of(host, self.name, self.vm_id):
            host.domains.set_autostart(ours, on=True)


# How long a guest may take to power off for a move, unless the user says otherwise.
STOP_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class StopToMove(Step):
    """Ask the guest to power off, to be started again where it goes, or here after all."""

    name: str
    vm_id: str
    timeout_s: float

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"stop domain {self.name}"

    def look(self, host: Host) -> Observed:
        """Is it off?"""
        state = state_of(host, self.name, self.vm_id)
        return InState() if state in OFF else Differs(f"domain {self.name} is {state}")

    def act(self, host: Host, clock: Clock) -> None:
        """Ask, and wait until it is off; NotInTime when the guest does not listen."""
        host.domains.shutdown(require_ours(host, self.name, self.vm_id))
        deadline = clock.monotonic() + self.timeout_s
        while isinstance(self.look(host), Differs):
            if clock.monotonic() >= deadline:
                raise NotInTime(
                    f"{self.name} did not power off in {self.timeout_s:g} s",
                    why="the guest ignores the ACPI power button or is busy; it was not moved",
                    next=f"vgpumgr vm stop {self.name} --force, then the same command again",
                )
            clock.wait(POLL_S)

    def undo(self, host: Host) -> None:
        """Start it again."""
        if ours := ours_of(host, self.name, self.vm_id):
            host.domains.start(ours)


@dataclass(frozen=True, slots=True)
class Depart(TwoHostStep):
    """Forget the domain on the host that it left; never a running one."""

    name: str
    vm_id: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"undefine domain {self.name} where it was"

    def look(self, source: Host, target: Host) -> Observed:
        """Is it gone there?"""
        ours = is_ours(source, self.name, self.vm_id)
        return Differs("still defined") if ours else InState()

    def act(self, source: Host, target: Host, around: StepSurroundings) -> None:
        """Undefine it, if it is surely defined on the target; Conflict while it runs here."""
        if not is_ours(source, self.name, self.vm_id):
            return
        if not is_ours(target, self.name, self.vm_id):
            raise Conflict(f"domain {self.name} is not defined on {target.name}")
        refuse_running(source, self.name, self.vm_id)
        forget(source, self.name, self.vm_id)


@dataclass(frozen=True, slots=True)
class DepartOff(Depart):
    """Forget the domain of a VM that is off: with it the move is done."""

    settles: ClassVar[bool] = True

    def undo(self, source: Host, target: Host) -> None:
        """It has not happened."""


def refuse_running(source: Host, name: str, vm_id: str) -> None:
    """Conflict when the domain runs on the host that it leaves: another hand started it."""
    if state_of(source, name, vm_id) is DomainState.RUNNING:
        raise Conflict(
            f"domain {name} runs on {source.name}",
            why="somebody started it while it was moved",
            next=f"virsh -c qemu+ssh://{source.name}/system domstate {name}",
        )


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
