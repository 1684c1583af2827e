"""Power: start, stop, reboot."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from vgpumgr.engine.steps.base import Step
from vgpumgr.engine.steps.domain import find_ours, ours_of, require_ours, state_of
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import DeadlineExceeded, HostRefused
from vgpumgr.model.observed import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host

POLL_S = 0.2

# Anything else still has a process: a domain that is shutting down is not off yet.
OFF = frozenset({DomainState.SHUTOFF, DomainState.CRASHED})


@dataclass(frozen=True, slots=True)
class StartDomain(Step):
    """Start the domain and see it run."""

    name: str
    vm_id: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"start domain {self.name}"

    def look(self, host: Host) -> Observed:
        """Does it run?"""
        return _power(host, self.name, self.vm_id, running=True)

    def act(self, host: Host, clock: Clock) -> None:
        """Start it; a start whose domain does not run afterwards is an error. Conflict where the
        domain of that name is not ours.
        """
        host.domains.start(require_ours(host, self.name, self.vm_id))
        seen = self.look(host)
        if isinstance(seen, Differs):
            raise HostRefused(
                f"domain {self.name} on {host.name} started and stopped again",
                why=seen.what,
                next=f"look at /var/log/libvirt/qemu/{self.name}.log on {host.name}",
            )

    def undo(self, host: Host) -> None:
        """Power it off."""
        if ours := ours_of(host, self.name, self.vm_id):
            host.domains.destroy(ours)


@dataclass(frozen=True, slots=True)
class StopDomain(Step):
    """Stop the domain: ask the guest, and with ``force`` pull the plug.

    ``timeout_s`` is how long the guest may take; some guests ignore ACPI. ``at_last``: the plug is
    pulled when that time is over.
    """

    name: str
    vm_id: str
    force: bool = False
    timeout_s: float = 60.0
    at_last: bool = False

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"stop domain {self.name}"

    def look(self, host: Host) -> Observed:
        """Is it off, or gone?"""
        return _power(host, self.name, self.vm_id, running=False)

    def act(self, host: Host, clock: Clock) -> None:
        """Stop it and see it off."""
        found = find_ours(host, self.name, self.vm_id)
        if found is None or found.state in OFF:
            return
        if self.force:
            host.domains.destroy(found.uuid)
        else:
            host.domains.shutdown(found.uuid)
        if self._is_off(host, clock):
            return
        if not self.at_last:
            raise DeadlineExceeded(
                f"{self.name} did not power off in {self.timeout_s:g} s",
                why="the guest ignores the ACPI power button or is busy",
                next=f"vgpumgr vm stop {self.name} --force",
            )
        host.domains.destroy(found.uuid)

    def _is_off(self, host: Host, clock: Clock) -> bool:
        """Is it off before the time is over?"""
        deadline = clock.monotonic() + self.timeout_s
        while not isinstance(self.look(host), InState):
            if clock.monotonic() >= deadline:
                return False
            clock.wait(POLL_S)
        return True


@dataclass(frozen=True, slots=True)
class StopForNow(StopDomain):
    """The same for a domain that is started again at once, with what is changed or without."""

    def undo(self, host: Host) -> None:
        """Start it again. It stays off where the host refuses that: it lost its devices meanwhile,
        and starting the VM brings them back.
        """
        if ours := ours_of(host, self.name, self.vm_id):
            with suppress(HostRefused):
                host.domains.start(ours)


@dataclass(frozen=True, slots=True)
class RebootDomain(Step):
    """Ask the guest to reboot, or with ``force`` power it off and on."""

    name: str
    vm_id: str
    force: bool = False

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"reboot domain {self.name}"

    def look(self, host: Host) -> Observed:
        """A running domain has rebooted, as far as the host can tell."""
        return _power(host, self.name, self.vm_id, running=True)

    def act(self, host: Host, clock: Clock) -> None:
        """Reboot it."""
        ours = require_ours(host, self.name, self.vm_id)
        if self.force:
            host.domains.destroy(ours)
            host.domains.start(ours)
        else:
            host.domains.reboot(ours)


def _power(host: Host, name: str, vm_id: str, *, running: bool) -> Observed:
    state = state_of(host, name, vm_id)
    return InState() if (state not in OFF) == running else Differs(f"domain {name} is {state}")
