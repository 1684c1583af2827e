"""Steps of an evacuation: a VM recreated on another host, and its remains on the lost one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vgpumgr.engine.steps.domain_steps import (
    StartDomain,
    UndefineDomain,
    find_ours,
    ours_of,
    state_of,
)
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import Conflict
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class SetAutostart(Step):
    """Have libvirt start the domain with its host, or not."""

    name: str
    vm_id: str
    on: bool

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"{'set' if self.on else 'clear'} autostart of {self.name}"

    def look(self, host: Host) -> Observed:
        """Is it in the wanted state? A missing domain starts by no means."""
        found = find_ours(host, self.name, self.vm_id)
        if found is None or found.autostart == self.on:
            return InState()
        return Differs(f"autostart is {'on' if found.autostart else 'off'}")

    def act(self, host: Host, clock: Clock) -> None:
        """Set it."""
        found = find_ours(host, self.name, self.vm_id)
        if found is not None and found.autostart != self.on:
            host.domains.set_autostart(found.uuid, on=self.on)

    def undo(self, host: Host) -> None:
        """Set it back."""
        if ours := ours_of(host, self.name, self.vm_id):
            host.domains.set_autostart(ours, on=not self.on)


@dataclass(frozen=True, slots=True)
class StartEvacuated(StartDomain):
    """Start it on its new host: from then on the guest may have written, and there is no way
    back.
    """

    settles: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class LeaveDomain(UndefineDomain):
    """Forget the domain of an evacuated VM on the lost host; never a running one."""

    def act(self, host: Host, clock: Clock) -> None:
        """Undefine it; Conflict while it runs: then it may run twice, and a person must choose."""
        state = state_of(host, self.name, self.vm_id)
        if state not in OFF:
            raise runs_there(self.name, host.name, str(state))
        UndefineDomain.act(self, host, clock)


def runs_there(name: str, host: str, state: str) -> Conflict:
    """The error for an evacuated VM whose old domain is not off."""
    return Conflict(
        f"{name} is {state} on {host}, from where it was evacuated",
        why="it may run twice on the same disks; only you can tell which one is right",
        next=f"on {host}: virsh destroy {name}   (then: vgpumgr host maintenance {host} --off)",
    )
