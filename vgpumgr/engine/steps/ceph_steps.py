"""Steps on images of Ceph's: cloned, and made to stand alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vgpumgr import domainxml
from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.steps.volume_steps import CreateVolume, refuse_foreign
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.vm_devices import DiskMode


@dataclass(frozen=True, slots=True)
class CloneImage(CreateVolume):
    """Make a volume that reads as another one of its pool until it is written to; ``alone``: it is
    to have all of that in itself. It is made as large as the other, and grown then.
    """

    alone: bool

    def act(self, host: Host, clock: Clock) -> None:
        """libvirt clones whatever it is asked to copy there."""
        plan = replace(self.plan, mode=DiskMode.FRESH)
        refuse_foreign(host, plan.pool, plan.name)
        host.storage.create(plan.pool, domainxml.volume(plan), copy_from=plan.source)
        host.storage.grow(plan.pool, plan.name, plan.capacity_bytes)
        if self.alone:
            flatten(host, plan.pool, plan.name)


@dataclass(frozen=True, slots=True)
class FlattenImage(Step):
    """Have a clone read as before without what it is laid over, whether a guest uses it or not."""

    pool: str
    name: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"have {self.pool}/{self.name} stand alone"

    def look(self, host: Host) -> Observed:
        """What does Ceph say that it is laid over?"""
        found = host.helper.call("rbd_look", {"pool": self.pool, "name": self.name})
        parent = found.get("parent")
        return Differs(f"it is laid over {parent}") if parent else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Ceph copies what it lacks; a call that is cut has changed no content."""
        flatten(host, self.pool, self.name)

    def undo(self, host: Host) -> None:
        """It reads as before either way."""


def flatten(host: Host, pool: str, name: str) -> None:
    """Have Ceph copy into an image what it is laid over; HostRefused where it still is."""
    found = host.helper.call("rbd_flatten", {"pool": pool, "name": name})
    if parent := found.get("parent"):
        why = f"it is laid over {parent} still"
        raise HostRefused(f"{pool}/{name} does not stand alone on {host.name}", why=why)
