"""Steps on a libvirt domain: define, undefine, start, stop, reboot."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from vgpumgr import domainxml
from vgpumgr.engine.steps.filter_steps import drop_filters_of, make_filters
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.domain import OFF, DomainFacts, DomainState
from vgpumgr.model.errors import Conflict, DeadlineExceeded, HostRefused, NotFound
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class DefineDomain(Step):
    """Define the domain, read it back, and set autostart."""

    name: str
    vm_id: str
    xml: str
    autostart: bool = False

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"define domain {self.name}"

    def look(self, host: Host) -> Observed:
        """Is a domain of ours of that name defined, and flagged in the wanted state?"""
        return _look(host, self)

    def act(self, host: Host, clock: Clock) -> None:
        """Define; what libvirt dropped without a word is an error, and the domain goes again."""
        find_ours(host, self.name, self.vm_id)
        dropped = define(host, self)
        if dropped:
            host.domains.undefine(self.name)
            raise dropped
        if self.autostart:
            host.domains.set_autostart(self.name, on=True)

    def undo(self, host: Host) -> None:
        """Undefine it, if it is ours."""
        forget(host, self.name, self.vm_id)
        drop_filters_of(host, self.xml)


@dataclass(frozen=True, slots=True)
class RedefineDomain(Step):
    """Change a domain's definition; ``old_xml`` brings the former one back, and ``old_autostart``
    (None: it was no other) the flag.
    """

    name: str
    vm_id: str
    xml: str
    old_xml: str
    autostart: bool = False
    old_autostart: bool | None = None

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"redefine domain {self.name}"

    def look(self, host: Host) -> Observed:
        """Does the definition say what we sent?"""
        seen = _look(host, self)
        if not isinstance(seen, InState):
            return seen
        found = domainxml.differences(self.xml, host.domains.xml(self.name))
        return Differs("; ".join(found)) if found else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Define over the old definition and read back."""
        find_ours(host, self.name, self.vm_id)
        dropped = define(host, self)
        if dropped:
            raise dropped
        host.domains.set_autostart(self.name, on=self.autostart)

    def undo(self, host: Host) -> None:
        """Define the former XML again."""
        if is_ours(host, self.name, self.vm_id):
            make_filters(host, self.old_xml)
            host.domains.define(self.old_xml)
            if self.old_autostart is not None:
                host.domains.set_autostart(self.name, on=self.old_autostart)
            drop_filters_of(host, self.xml, but=self.old_xml)


@dataclass(frozen=True, slots=True)
class UndefineDomain(Step):
    """Power the domain off and forget it."""

    name: str
    vm_id: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"undefine domain {self.name}"

    def look(self, host: Host) -> Observed:
        """Is it gone? A stranger that took its name is no concern of ours."""
        ours = is_ours(host, self.name, self.vm_id)
        return Differs("still defined") if ours else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Power it off and undefine it, if it is ours and there."""
        forget(host, self.name, self.vm_id)


def define(host: Host, step: DefineDomain | RedefineDomain) -> HostRefused | None:
    """Define and read back; the error to raise when libvirt dropped something."""
    make_filters(host, step.xml)
    read_back = host.domains.define(step.xml)
    dropped = domainxml.differences(step.xml, read_back)
    if dropped:
        return HostRefused(
            f"libvirt on {host.name} did not take all of {step.name}'s definition",
            why="; ".join(dropped),
            next=f"look at {host.name}'s libvirt version: vgpumgr host show {host.name}",
        )
    return None


def _look(host: Host, step: DefineDomain | RedefineDomain) -> Observed:
    found = find_ours(host, step.name, step.vm_id)
    if found is None:
        return Differs(f"domain {step.name} is not defined")
    if found.autostart != step.autostart:
        return Differs(f"autostart of {step.name} is {'on' if found.autostart else 'off'}")
    return InState()


def forget(host: Host, name: str, vm_id: str) -> None:
    """Power our domain off and undefine it; a stranger of that name is left alone."""
    ours = ours_of(host, name, vm_id)
    if ours:
        host.domains.destroy(ours)
        host.domains.undefine(ours)


def is_ours(host: Host, name: str, vm_id: str) -> bool:
    """Is there a domain of that name, and is it this VM's?"""
    return bool(ours_of(host, name, vm_id))


def ours_of(host: Host, name: str, vm_id: str) -> str:
    """The UUID of our domain of that name, empty where there is none. It is acted on by that:
    another domain may take the name right after the look.
    """
    found = host.domains.look(name)
    return found.uuid if found and _belongs(found, vm_id) else ""


def require_ours(host: Host, name: str, vm_id: str) -> str:
    """The fleet's domain of that name; NotFound where there is none, Conflict as ``find_ours``."""
    found = find_ours(host, name, vm_id)
    if found is None:
        raise NotFound(f"domain {name} is not defined on {host.name}")
    return found.uuid


def find_ours(host: Host, name: str, vm_id: str) -> DomainFacts | None:
    """The fleet's domain of that name, or None; Conflict when the name belongs to another owner."""
    found = host.domains.look(name)
    if found is None:
        return None
    if not _belongs(found, vm_id):
        raise Conflict(
            f"domain {name} on {host.name} is not ours",
            why="its metadata does not name this VM",
            next="rename the VM, or remove that domain with virsh",
        )
    return found


def state_of(host: Host, name: str, vm_id: str) -> DomainState:
    """The state of the fleet's domain; a missing one is off. Conflict as ``find_ours``."""
    found = find_ours(host, name, vm_id)
    return found.state if found else DomainState.SHUTOFF


def _belongs(found: DomainFacts, vm_id: str) -> bool:
    return found.ownership is not None and found.ownership.vm_id == vm_id


POLL_S = 0.2

# Anything else still has a process: a domain that is shutting down is not off yet.


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
        domain of that name is not the fleet's.
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
    """Stop a domain that is started again at once, changed or unchanged."""

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
