"""Defining and forgetting the domain."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr import domainxml
from vgpumgr.engine.steps.base import Step
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.errors import Conflict, HostRefused
from vgpumgr.model.observed import Differs, InState, Observed
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
        """Is a domain of ours of that name defined?"""
        found = find_ours(host, self.name, self.vm_id)
        return InState() if found else Differs(f"domain {self.name} is not defined")

    def act(self, host: Host, clock: Clock) -> None:
        """Define; what libvirt dropped without a word is an error, and the domain goes again."""
        find_ours(host, self.name, self.vm_id)
        dropped = define(host, self)
        if dropped:
            host.domains.undefine(self.name)
            raise dropped

    def undo(self, host: Host) -> None:
        """Undefine it, if it is ours."""
        if find_ours(host, self.name, self.vm_id):
            host.domains.destroy(self.name)
            host.domains.undefine(self.name)


@dataclass(frozen=True, slots=True)
class RedefineDomain(Step):
    """Change a domain's definition; ``old_xml`` brings the former one back."""

    name: str
    vm_id: str
    xml: str
    old_xml: str
    autostart: bool = False

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"redefine domain {self.name}"

    def look(self, host: Host) -> Observed:
        """Does the definition say what we sent?"""
        if find_ours(host, self.name, self.vm_id) is None:
            return Differs(f"domain {self.name} is not defined")
        found = domainxml.differences(self.xml, host.domains.xml(self.name))
        return Differs("; ".join(found)) if found else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Define over the old definition and read back."""
        find_ours(host, self.name, self.vm_id)
        dropped = define(host, self)
        if dropped:
            raise dropped

    def undo(self, host: Host) -> None:
        """Define the former XML again."""
        if find_ours(host, self.name, self.vm_id):
            host.domains.define(self.old_xml)


@dataclass(frozen=True, slots=True)
class UndefineDomain(Step):
    """Forget the domain."""

    name: str
    vm_id: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"undefine domain {self.name}"

    def look(self, host: Host) -> Observed:
        """Is it gone?"""
        found = find_ours(host, self.name, self.vm_id)
        return Differs("still defined") if found else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Undefine it, if it is ours and there."""
        if find_ours(host, self.name, self.vm_id):
            host.domains.undefine(self.name)


def define(host: Host, step: DefineDomain | RedefineDomain) -> HostRefused | None:
    """Define and read back; the error to raise when libvirt dropped something."""
    read_back = host.domains.define(step.xml)
    dropped = domainxml.differences(step.xml, read_back)
    if dropped:
        return HostRefused(
            f"libvirt on {host.name} did not take all of {step.name}'s definition",
            why="; ".join(dropped),
            next=f"look at {host.name}'s libvirt version: vgpumgr host show {host.name}",
        )
    if step.autostart:
        host.domains.set_autostart(step.name, on=True)
    return None


def find_ours(host: Host, name: str, vm_id: str) -> DomainFacts | None:
    """Our domain of that name, or None; Conflict when the name belongs to somebody else."""
    found = host.domains.look(name)
    if found is None:
        return None
    if found.ownership is None or found.ownership.vm_id != vm_id:
        raise Conflict(
            f"domain {name} on {host.name} is not ours",
            why="its metadata does not name this VM",
            next="rename the VM, or remove that domain with virsh",
        )
    return found
