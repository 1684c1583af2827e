"""Volumes from one host to another: made empty for a live move, or carried over with their data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vgpumgr import domainxml
from vgpumgr.engine.digests import file_digest
from vgpumgr.engine.steps.base import TOLD_EVERY, Around, Between
from vgpumgr.engine.steps.volume import refuse_foreign
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import HostRefused, Interrupted
from vgpumgr.model.observed import Differs, InState, Observed
from vgpumgr.model.ports import Host
from vgpumgr.model.size import size_words


@dataclass(frozen=True, slots=True)
class CarryVolume(Between):
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

    def act(self, source: Host, target: Host, around: Around) -> None:
        """Make it, copy, and compare both ends before anybody relies on it."""
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


def _reported(doing: str, total: int, around: Around) -> Callable[[int], None]:
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
