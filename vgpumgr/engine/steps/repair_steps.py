"""Steps that only `heal` takes: a definition kept, a last look at a VM that is gone."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr import gpu
from vgpumgr.engine.steps.domain_steps import (
    DefineDomain,
    UndefineDomain,
    define,
    find_ours,
    is_ours,
    state_of,
)
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class KeepDomain(Step):
    """Define a domain that runs and was undefined, so that it outlives its guest's next stop."""

    name: str
    vm_id: str
    xml: str
    autostart: bool = False

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"define domain {self.name}, which runs"

    def look(self, host: Host) -> Observed:
        """Does it have a definition, and is it flagged in the wanted state?"""
        found = find_ours(host, self.name, self.vm_id)
        if found is None or not found.persistent:
            return Differs(f"domain {self.name} is not defined")
        if found.autostart != self.autostart:
            return Differs(f"autostart of {self.name} is {'on' if found.autostart else 'off'}")
        return InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Define it, if it still runs, and read back."""
        if find_ours(host, self.name, self.vm_id) is None:
            raise NotFound(f"domain {self.name} on {host.name} has stopped meanwhile and is gone")
        step = DefineDomain(name=self.name, vm_id=self.vm_id, xml=self.xml)
        if dropped := define(host, step):
            raise dropped
        host.domains.set_autostart(self.name, on=self.autostart)


@dataclass(frozen=True, slots=True)
class ForgetDomain(UndefineDomain):
    """Undefine a domain that carries a VM's mark where it does not belong; never a running one."""

    def act(self, host: Host, clock: Clock) -> None:
        """Undefine it, if it is there; Conflict while it is not off."""
        state = state_of(host, self.name, self.vm_id)
        if state not in OFF:
            raise Conflict(
                f"domain {self.name} on {host.name} is {state}",
                why="what is not off is not removed",
                next=f"vgpumgr drift {host.name}",
            )
        UndefineDomain.act(self, host, clock)


@dataclass(frozen=True, slots=True)
class ConfirmGone(Step):
    """Look once more that nothing of a VM is on its host: no domain, and none of its devices or
    claims. It changes nothing; its task gives the units back.
    """

    name: str
    vm_id: str
    allocations: tuple[Allocation, ...]

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"see that nothing of {self.name} is left"

    def look(self, host: Host) -> Observed:
        """Is nothing there?"""
        if is_ours(host, self.name, self.vm_id):
            return Differs(f"domain {self.name} is there")
        for each in self.allocations:
            framework = gpu.framework(each.framework)
            if framework.holds(host.helper, each):
                return Differs(f"{each.device} is claimed")
            if isinstance(framework.look(host.helper, each), InState):
                return Differs(f"{each.device} is there")
        return InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Conflict where something is there after all."""
        seen = self.look(host)
        if isinstance(seen, Differs):
            raise Conflict(
                f"{self.name} is not gone from {host.name}",
                why=seen.what,
                next=f"vgpumgr drift {host.name}",
            )
