"""Volumes made for a VM."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import ClassVar

from vgpumgr import domainxml
from vgpumgr.engine.steps.base import Around, Step
from vgpumgr.engine.steps.seed import build_seed, filled
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict
from vgpumgr.model.observed import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.vm import CloudInit, VmRecord


@dataclass(frozen=True, slots=True)
class CreateVolume(Step):
    """Make a fresh, copied or overlay volume. Half a copy looks like a volume."""

    atomic: ClassVar[bool] = False

    plan: VolumePlan

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"create volume {self.plan.pool}/{self.plan.name}"

    def look(self, host: Host) -> Observed:
        """Is the volume there?"""
        return _look(host, self.plan.pool, self.plan.name)

    def act(self, host: Host, clock: Clock) -> None:
        """Create it; a volume of that name that we did not make is refused."""
        refuse_foreign(host, self.plan.pool, self.plan.name)
        copy_from = self.plan.source if self.plan.mode == "copy" else None
        host.storage.create(self.plan.pool, domainxml.volume(self.plan), copy_from=copy_from)

    def undo(self, host: Host) -> None:
        """Delete it."""
        host.storage.delete(self.plan.pool, self.plan.name)


@dataclass(frozen=True, slots=True)
class CreateSeed(Step):
    """Make the cloud-init seed volume and fill it.

    The journal outlives the VM, so the step holds a digest: the text is read from the VM's record.
    """

    atomic: ClassVar[bool] = False

    plan: VolumePlan
    instance_id: str
    hostname: str
    cloud_init: CloudInit

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"create cloud-init seed {self.plan.pool}/{self.plan.name}"

    def look(self, host: Host) -> Observed:
        """Is the volume there?"""
        return _look(host, self.plan.pool, self.plan.name)

    def act(self, host: Host, clock: Clock) -> None:
        """It needs the VM's record: :meth:`within`."""
        self.within(host, Around(clock, threading.Event(), lambda _: None))

    def within(self, host: Host, around: Around) -> None:
        """Create it and upload; a volume of that name that we did not make is refused."""
        image = self._image(around.vm(self.hostname))
        refuse_foreign(host, self.plan.pool, self.plan.name)
        host.storage.create(self.plan.pool, domainxml.volume(self.plan))
        host.storage.upload(self.plan.pool, self.plan.name, image)

    def undo(self, host: Host) -> None:
        """Delete it."""
        host.storage.delete(self.plan.pool, self.plan.name)

    def _image(self, vm: VmRecord) -> bytes:
        """The NoCloud ISO of the text that the step was planned with; Conflict for any other."""
        text = filled(vm)
        if vm.id != self.instance_id or text is None or text.withheld() != self.cloud_init:
            raise Conflict(
                f"the cloud-init text of {vm.name} is not what its seed was planned with",
                why="the VM was changed since",
                next="vgpumgr operation list --open",
            )
        return build_seed(
            instance_id=vm.id,
            hostname=vm.name,
            user_data=text.user_data,
            network_config=text.network_config,
        )


@dataclass(frozen=True, slots=True)
class DeleteVolume(Step):
    """Delete a volume that was made for the VM."""

    pool: str
    name: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"delete volume {self.pool}/{self.name}"

    def look(self, host: Host) -> Observed:
        """Is it gone?"""
        found = _look(host, self.pool, self.name)
        return Differs("still there") if isinstance(found, InState) else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Delete it."""
        host.storage.delete(self.pool, self.name)


@dataclass(frozen=True, slots=True)
class DeleteReplaced(DeleteVolume):
    """Delete a volume that another one stands for: with it there is no way back."""

    settles: ClassVar[bool] = True

    def undo(self, host: Host) -> None:
        """It has not happened."""


def _look(host: Host, pool: str, name: str) -> Observed:
    if host.storage.look(pool, name) is None:
        return Differs(f"volume {pool}/{name} does not exist")
    return InState()


def refuse_foreign(host: Host, pool: str, name: str) -> None:
    """Conflict when a volume of that name is there: it was not created for this VM."""
    if host.storage.look(pool, name) is not None:
        raise Conflict(
            f"volume {pool}/{name} exists already on {host.name}",
            why="it was not created for this VM",
            next="delete it with virsh vol-delete, or choose another VM name",
        )
