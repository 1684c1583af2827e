"""Snapshots of a VM's disks, and the tree that they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

MOST_SNAPSHOTS = 16
"""The most that a VM has, which is also how deep one may lie below the VM's disks: QEMU opens
every file of such a chain, and each read asks one after the other."""


class DiskMoment(StrEnum):
    """The moment that the disks are of: the VM was off, its file systems were frozen by the guest's
    agent, or it ran on, which leaves its disks as a power cut would.
    """

    OFF = "off"
    FROZEN = "frozen"
    RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All disks of a VM at one moment. ``volumes`` are (pool, name) pairs, one for each disk in
    their order: nothing writes to them any more. ``over`` is the snapshot that was the latest when
    it was taken, empty for none. ``created_at`` in Unix seconds.
    """

    name: str
    created_at: float
    moment: DiskMoment
    volumes: tuple[tuple[str, str], ...]
    over: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTree:
    """The snapshots of a VM, the oldest first; ``current`` is the one that its disks are laid over,
    empty where it is none.
    """

    snapshots: tuple[Snapshot, ...] = ()
    current: str = ""

    def __bool__(self) -> bool:
        return bool(self.snapshots)

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(self.snapshots)

    @property
    def volumes(self) -> tuple[tuple[str, str], ...]:
        """The volumes of all snapshots, from the upmost to the lowest."""
        return tuple(volume for each in reversed(self.snapshots) for volume in each.volumes)

    def find(self, name: str) -> Snapshot | None:
        """The snapshot of that name, or None."""
        return next((each for each in self.snapshots if each.name == name), None)

    def over(self, name: str) -> tuple[Snapshot, ...]:
        """The snapshots that are laid directly over that one."""
        return tuple(each for each in self.snapshots if each.over == name)

    def below_disks(self) -> tuple[str, ...]:
        """The snapshots that the VM's disks are laid over, the latest first."""
        found, name = [], self.current
        while (each := self.find(name)) is not None and name not in found:
            found.append(name)
            name = each.over
        return tuple(found)

    def taken(self, made: Snapshot) -> SnapshotTree:
        """With one more, which the VM's disks are then laid over."""
        new = replace(made, over=self.current)
        return SnapshotTree(snapshots=(*self.snapshots, new), current=new.name)

    def at(self, name: str) -> SnapshotTree:
        """With the VM's disks laid over that one."""
        return replace(self, current=name)

    def without(self, name: str) -> SnapshotTree:
        """Without that one: what was laid over it lies over what it was laid over."""
        gone = self.find(name)
        below = gone.over if gone else ""
        left = (each for each in self.snapshots if each.name != name)
        return SnapshotTree(
            snapshots=tuple(
                replace(each, over=below) if each.over == name else each for each in left
            ),
            current=below if self.current == name else self.current,
        )


NO_SNAPSHOTS = SnapshotTree()
