"""Steps that adopt a foreign VM: its devices claimed on the host, its definition marked."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr import domainxml, gpu
from vgpumgr.engine.inventory.gpu_usage import claim_unit
from vgpumgr.engine.steps.step import Step
from vgpumgr.gpu.gpu_framework import claim_of
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import DomainFacts, Ownership
from vgpumgr.model.errors import Conflict, HostRefused, NotFound
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class AdoptDevice(Step):
    """Claim the device of an allocation, which is there; it is not touched, forth or back."""

    allocation: Allocation

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"claim {self.allocation.profile} {self.allocation.device}"

    def look(self, host: Host) -> Observed:
        """Is it claimed for this allocation?"""
        framework = gpu.framework(self.allocation.framework)
        held = framework.holds(host.helper, self.allocation)
        return InState() if held else Differs(f"{self.allocation.device} is not claimed")

    def act(self, host: Host, clock: Clock) -> None:
        """Claim it; the helper refuses where it is not as the allocation says."""
        gpu.framework(self.allocation.framework).adopt(host.helper, self.allocation)

    def undo(self, host: Host) -> None:
        """Give the claim up; the device stays."""
        if isinstance(self.look(host), InState):
            unit, claim = claim_unit(self.allocation), claim_of(self.allocation)
            host.helper.call("disown", {"unit": unit, "claim": claim})


@dataclass(frozen=True, slots=True)
class MarkDomain(Step):
    """Put a VM's mark into the definition, and into the running domain; nothing else changes.

    ``uuid`` is libvirt's id of the domain; empty: whichever has the name. A mark of the same VM
    is replaced, a stranger's never.
    """

    name: str
    uuid: str
    mark: Ownership

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"mark domain {self.name} as VM {self.mark.vm}"

    def look(self, host: Host) -> Observed:
        """Does it carry the mark, running and defined?"""
        found = self._found(host)
        if found is None or found.ownership != self.mark:
            return Differs(f"domain {self.name} is not marked")
        defined = domainxml.parse(host.domains.xml(self.name)).ownership
        return InState() if defined == self.mark else Differs("its definition is not marked")

    def act(self, host: Host, clock: Clock) -> None:
        """Mark it and read the mark back. NotFound without the domain, Conflict for another's."""
        if self._found(host) is None:
            raise NotFound(f"there is no domain {self.name} on {host.name} any more")
        host.domains.set_ownership(self.name, self.mark)
        seen = self.look(host)
        if isinstance(seen, Differs):
            raise HostRefused(f"libvirt on {host.name} did not keep our mark", why=seen.what)

    def undo(self, host: Host) -> None:
        """Take the mark out again, if it is this VM's."""
        found = host.domains.look(self.name)
        mark = found.ownership if found else None
        if mark is not None and mark.vm_id == self.mark.vm_id:
            host.domains.set_ownership(self.name, None)

    def _found(self, host: Host) -> DomainFacts | None:
        """The domain; None without one. Conflict where it is another one, or another VM's."""
        found = host.domains.look(self.name)
        if found is None:
            return None
        if self.uuid and found.uuid != self.uuid:
            raise Conflict(
                f"domain {self.name} on {host.name} is not the same domain as before",
                why=f"its UUID is {found.uuid}, it was {self.uuid}",
                next=f"vgpumgr adopt {host.name}",
            )
        if found.ownership is not None and found.ownership.vm_id != self.mark.vm_id:
            raise Conflict(
                f"domain {self.name} on {host.name} is not ours",
                why=f"it carries the mark of VM {found.ownership.vm_id}",
                next=f"vgpumgr adopt {host.name}",
            )
        return found
