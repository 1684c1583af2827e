"""Steps of a VM that gets another name: its domain, and the claims of what it holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vgpumgr import domainxml
from vgpumgr.engine.steps.domain_steps import RedefineDomain, find_ours, ours_of
from vgpumgr.engine.steps.filter_steps import make_filters
from vgpumgr.engine.steps.step import Step
from vgpumgr.gpu.gpu_framework import claim_of
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import Conflict
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class RenameDomain(Step):
    """Define a domain that is off by its new name, ``name``, under the UUID that it has.

    libvirt's own rename is refused for a domain with checkpoints, and leaves the file of its NVRAM
    to the next domain of the old name: so the old definition is forgotten first. Between the two
    the VM has none, and what holds its place is the ledger.
    """

    old_name: str
    name: str
    vm_id: str
    xml: str
    old_xml: str
    autostart: bool = False

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"rename domain {self.old_name} to {self.name}"

    def look(self, host: Host) -> Observed:
        """Is it defined by its new name as sent, and no longer by its old one?"""
        if ours_of(host, self.old_name, self.vm_id):
            return Differs(f"domain {self.old_name} is defined")
        return self._defined_as(self.name, self.xml).look(host)

    def act(self, host: Host, clock: Clock) -> None:
        """Forget the old definition, write the new one and read it back. Conflict where another
        domain has the new name, or where this one runs.
        """
        find_ours(host, self.name, self.vm_id)
        self._forget(host, self.old_name)
        self._defined_as(self.name, self.xml).act(host, clock)

    def undo(self, host: Host) -> None:
        """Bring the old definition back."""
        if ours_of(host, self.name, self.vm_id):
            self._forget(host, self.name)
        if find_ours(host, self.old_name, self.vm_id) is None:
            make_filters(host, self.old_xml)
            host.domains.define(self.old_xml)
            host.domains.set_autostart(self.old_name, on=self.autostart)

    def _forget(self, host: Host, name: str) -> None:
        """Undefine it, but for the state of its TPM; Conflict while it runs."""
        found = find_ours(host, name, self.vm_id)
        if found is None:
            return
        if found.state not in OFF:
            raise Conflict(
                f"{name} is {found.state} on {host.name}",
                why="another hand started it meanwhile",
                next=f"vgpumgr vm stop {self.old_name}, then the same command again",
            )
        keep = bool(domainxml.state_beside_disks(self.xml))
        host.domains.undefine(found.uuid, keep_tpm=keep)

    def _defined_as(self, name: str, xml: str) -> RedefineDomain:
        return RedefineDomain(
            name=name, vm_id=self.vm_id, xml=xml, old_xml=xml, autostart=self.autostart
        )


@dataclass(frozen=True, slots=True)
class RenameClaim(Step):
    """Have what the host keeps of an allocation name its VM as it is called now."""

    allocation: Allocation
    old_name: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"claim {self.allocation.profile} for {self.allocation.vm}"

    def look(self, host: Host) -> Observed:
        """Do all its claims name that VM?"""
        found = host.helper.call("claims", {}).get("claims")
        claims = found if isinstance(found, list) else []
        mine = [each for each in claims if each["allocation"] == self.allocation.id]
        other = [str(each["vm"]) for each in mine if each["vm"] != self.allocation.vm]
        return Differs(f"it is claimed for {other[0]}") if other else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Rewrite them; one that a host lost comes back as the VM is started."""
        host.helper.call("claim_rename", {"claim": claim_of(self.allocation)})

    def undo(self, host: Host) -> None:
        """Have them name it as before."""
        before = replace(self.allocation, vm=self.old_name)
        host.helper.call("claim_rename", {"claim": claim_of(before)})
