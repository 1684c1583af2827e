"""Volumes made for a VM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vgpumgr import domainxml
from vgpumgr.engine.steps.base import Step
from vgpumgr.engine.steps.seed import build_seed
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict
from vgpumgr.model.observed import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.vm import CloudInit


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
    """Make the cloud-init seed volume and fill it."""

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
        """Create it and upload; a volume of that name that we did not make is refused."""
        refuse_foreign(host, self.plan.pool, self.plan.name)
        host.storage.create(self.plan.pool, domainxml.volume(self.plan))
        host.storage.upload(self.plan.pool, self.plan.name, seed_image(self))

    def undo(self, host: Host) -> None:
        """Delete it."""
        host.storage.delete(self.plan.pool, self.plan.name)


def seed_image(step: CreateSeed) -> bytes:
    """The NoCloud ISO of a seed step."""
    return build_seed(
        instance_id=step.instance_id,
        hostname=step.hostname,
        user_data=step.cloud_init.user_data,
        network_config=step.cloud_init.network_config,
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
    """Conflict when a volume of that name is there: it was not made for this VM."""
    if host.storage.look(pool, name) is not None:
        raise Conflict(
            f"volume {pool}/{name} exists already on {host.name}",
            why="it was not made for this VM",
            next="delete it with virsh vol-delete, or choose another VM name",
        )
