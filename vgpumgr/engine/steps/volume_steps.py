"""Steps on a VM's volumes: created, deleted, and carried to another host."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from vgpumgr import domainxml
from vgpumgr.engine.steps.step import TOLD_EVERY, Step, StepSurroundings, TwoHostStep
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict, HostRefused, Interrupted
from vgpumgr.model.formats import size_words
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


def file_digest(host: Host, path: str) -> object:
    """The SHA-256 of a volume's file; raises where the helper cannot read it."""
    asked = {"path": path, "pool_path": posixpath.dirname(path)}
    return host.helper.call("file_digest", asked)["sha256"]


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
        return volume_seen(host, self.plan.pool, self.plan.name)

    def act(self, host: Host, clock: Clock) -> None:
        """Create it; a volume of that name that we did not make is refused. libvirt makes a copy as
        large as what is copied, whatever it is told.
        """
        refuse_foreign(host, self.plan.pool, self.plan.name)
        plan = self.plan
        copy_from = plan.source if plan.mode == "copy" else None
        made = host.storage.create(
            plan.pool, domainxml.volume(plan), copy_from=copy_from, from_pool=plan.source_pool
        )
        if copy_from and made.capacity_bytes < plan.capacity_bytes:
            host.storage.grow(plan.pool, plan.name, plan.capacity_bytes)

    def undo(self, host: Host) -> None:
        """Delete it."""
        host.storage.delete(self.plan.pool, self.plan.name)


@dataclass(frozen=True, slots=True)
class GrowVolume(Step):
    """Make a volume of a VM that is off larger. What is larger stays so: no byte of it is cut."""

    pool: str
    name: str
    capacity_bytes: int

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"grow volume {self.pool}/{self.name} to {size_words(self.capacity_bytes)}"

    def look(self, host: Host) -> Observed:
        """Is it as large as that?"""
        found = host.storage.look(self.pool, self.name)
        if found is None:
            return Differs(f"volume {self.pool}/{self.name} does not exist")
        small = found.capacity_bytes < self.capacity_bytes
        return Differs(f"it has {found.capacity_bytes} bytes") if small else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Make it larger; the storage reads back."""
        host.storage.grow(self.pool, self.name, self.capacity_bytes)

    def undo(self, host: Host) -> None:
        """It stays larger than its VM asks for, and loses nothing."""


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
        found = volume_seen(host, self.pool, self.name)
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


def volume_seen(host: Host, pool: str, name: str) -> Observed:
    """Is a volume of that name there?"""
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


@dataclass(frozen=True, slots=True)
class CarryVolume(TwoHostStep):
    """Make the volume of ``plan`` on the target and copy the data of its namesake into it.

    ``path`` is its file on the source, ``target_path`` the one on the target.
    """

    plan: VolumePlan
    path: str
    target_path: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"copy volume {self.plan.pool}/{self.plan.name}"

    def look(self, source: Host, target: Host) -> Observed:
        """Is it there with the same bytes?"""
        if target.storage.look(self.plan.pool, self.plan.name) is None:
            return Differs("it is not there")
        same = file_digest(source, self.path) == file_digest(target, self.target_path)
        return InState() if same else Differs("its content differs")

    def renew(self, source: Host, target: Host) -> None:
        """Half a copy is none."""
        self.undo(source, target)

    def act(self, source: Host, target: Host, around: StepSurroundings) -> None:
        """Make it, copy, and compare both ends before it is used."""
        pool, name = self.plan.pool, self.plan.name
        refuse_foreign(target, pool, name)
        target.storage.create(pool, domainxml.volume(self.plan))
        seen = _reported(self.summary, self.plan.capacity_bytes, around)
        source.storage.copy_to(pool, name, target, seen)
        if not isinstance(self.look(source, target), InState):
            raise HostRefused(
                f"volume {pool}/{name} on {target.name} is not what was sent",
                why="the digests of both ends differ",
                next="the same command again",
            )

    def undo(self, source: Host, target: Host) -> None:
        """Delete the copy."""
        target.storage.delete(self.plan.pool, self.plan.name)


def _reported(doing: str, total: int, around: StepSurroundings) -> Callable[[int], None]:
    """Tells of the bytes that went over, and ends the copy when the user wants to stop."""
    told = 0

    def seen(done: int) -> None:
        nonlocal told
        if around.stop.is_set():
            raise Interrupted(f"{doing}: interrupted")
        if done - told >= total * TOLD_EVERY:
            told = done
            around.tell(f"{doing}: {size_words(done)} of at most {size_words(total)}")

    return seen
