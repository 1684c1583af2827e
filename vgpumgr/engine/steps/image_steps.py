"""Steps on image copies: imported to a host, deleted where no disk lies over them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar

from vgpumgr import domainxml
from vgpumgr.engine.steps.image_file import Digest, ImageFile, opened
from vgpumgr.engine.steps.step import TOLD_EVERY, Step, StepSurroundings
from vgpumgr.engine.steps.volume_steps import file_digest
from vgpumgr.model.domain import VolumeFacts, VolumePlan
from vgpumgr.model.errors import BadImage, Conflict, HostRefused, Interrupted, InUse
from vgpumgr.model.formats import size_words
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host

# Less is not worth a line.
_TOLD_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ImportImage(Step):
    """Make the volume, send the file, and compare its digest on the host. ``source`` is the file on
    this machine. Half a copy looks like a volume.

    libvirt makes the volume raw, so that it has just the bytes of the file, whose format is
    declared where it is used.
    """

    atomic: ClassVar[bool] = False

    pool: str
    volume: str
    source: str
    file_bytes: int
    sha256: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"copy image to {self.pool}/{self.volume}"

    def look(self, host: Host) -> Observed:
        """Is it there with the same bytes?"""
        found = host.storage.look(self.pool, self.volume)
        if found is None:
            return Differs(f"volume {self.pool}/{self.volume} does not exist")
        same = file_digest(host, found.path) == self.sha256
        return InState() if same else Differs("its content differs")

    def act(self, host: Host, clock: Clock) -> None:
        """Send it all, without a way to interrupt."""
        self.within(host, StepSurroundings(clock, threading.Event(), _unheard))

    def within(self, host: Host, around: StepSurroundings) -> None:
        """Send it; a whole copy from before will do, any other volume belongs to another owner."""
        found = self.look(host)
        if isinstance(found, InState):
            return
        if host.storage.look(self.pool, self.volume) is not None:
            raise Conflict(
                f"volume {self.pool}/{self.volume} exists on {host.name}",
                why="it has the name of this image's copies, but other content",
                next=f"virsh vol-delete {self.volume} {self.pool}   on {host.name}, if nobody "
                "uses it",
            )
        plan = VolumePlan(
            pool=self.pool, name=self.volume, capacity_bytes=self.file_bytes, format="raw"
        )
        with opened(self.source) as file:
            host.storage.create(self.pool, domainxml.volume(plan))
            pieces = self._checked(file, host, around)
            host.storage.fill(self.pool, self.volume, self.file_bytes, pieces)
        if not isinstance(self.look(host), InState):
            raise HostRefused(
                f"volume {self.pool}/{self.volume} on {host.name} is not what was sent",
                why="the digests of both ends differ",
                next="the same command again",
            )

    def undo(self, host: Host) -> None:
        """Delete the copy, unless it is in use."""
        delete_unused(host, self.pool, self.volume, made_now=True)

    def _checked(
        self, file: ImageFile, host: Host, around: StepSurroundings
    ) -> Iterator[bytes | int]:
        """The file's pieces, compared with the digest at planning."""
        digest, told = Digest(), 0
        for piece in file.pieces():
            if around.stop.is_set():
                raise Interrupted(f"{self.summary}: interrupted")
            digest.update(piece)
            if digest.bytes > self.file_bytes:
                break
            yield piece
            if digest.bytes - told >= max(self.file_bytes * TOLD_EVERY, _TOLD_BYTES):
                told = digest.bytes
                total = size_words(self.file_bytes)
                around.tell(f"{size_words(told)} of {total} are on {host.name}")
        if (digest.bytes, digest.sha256) != (self.file_bytes, self.sha256):
            raise BadImage(
                f"{self.source} changed since its import began",
                next="vgpumgr image import again, as another version",
            )


@dataclass(frozen=True, slots=True)
class DeleteImage(Step):
    """Delete a copy that no disk lies over."""

    settles: ClassVar[bool] = True

    pool: str
    volume: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"delete image {self.pool}/{self.volume}"

    def look(self, host: Host) -> Observed:
        """Is it gone?"""
        there = host.storage.look(self.pool, self.volume)
        return Differs("still there") if there is not None else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Delete it; InUse while a volume on the host lies over it."""
        delete_unused(host, self.pool, self.volume)

    def undo(self, host: Host) -> None:
        """It has not happened."""


def _unheard(_: str) -> None:
    """A progress report that is dropped."""


def delete_unused(host: Host, pool: str, volume: str, *, made_now: bool = False) -> None:
    """Delete a volume that is no other volume's base. InUse names the volumes that lie over it;
    Conflict where a storage pool is not active, in which such ones may be. Of a copy that was
    ``made_now`` there are none.
    """
    found = host.storage.look(pool, volume)
    if found is None:
        return
    pools = host.storage.pools()
    every = [each for own in pools if own.active for each in host.storage.volumes(own.name)]
    over = sorted(f"{each.pool}/{each.name}" for each in _lying_over(found, every))
    if over:
        rest = f" and {len(over) - 3} more" if len(over) > 3 else ""
        raise InUse(
            f"volume {pool}/{volume} on {host.name} is in use",
            why=f"{', '.join(over[:3])}{rest} lie over it",
            next="delete these VMs, or the disks that were kept of them",
        )
    unseen = [each.name for each in pools if not each.active]
    if unseen and not made_now:
        raise Conflict(
            f"volume {pool}/{volume} on {host.name} may be in use",
            why=f"storage pool {unseen[0]} is not active: its disks may lie over it",
            next=f"virsh pool-start {unseen[0]}   on {host.name}, or pool-undefine if it is empty",
        )
    host.storage.delete(pool, volume)


def _lying_over(base: VolumeFacts, every: Collection[VolumeFacts]) -> Iterator[VolumeFacts]:
    """Volumes that name the base as what is below them: by its path, or by another path that ends
    in its name (a link, another mount) where no volume that is known has that path.
    """
    paths, name = {each.path for each in every}, PurePath(base.path).name
    for each in every:
        below = each.backing_path or ""
        elsewhere = below not in paths and PurePath(below).name == name
        if below and (below == base.path or elsewhere):
            yield each
