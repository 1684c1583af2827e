"""Steps of a snapshot: a running VM's disks changed over, volumes that stand without others, and
volumes that the VM left deleted.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vgpumgr import domainxml
from vgpumgr.engine.steps.domain_steps import POLL_S, StopDomain, find_ours, ours_of
from vgpumgr.engine.steps.step import TOLD_EVERY, Step, StepSurroundings
from vgpumgr.engine.steps.volume_steps import DeleteReplaced
from vgpumgr.model.domain import OFF, Ownership
from vgpumgr.model.errors import Conflict, HostRefused, Interrupted
from vgpumgr.model.operation import Differs, InState, Observed, Unknown
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.snapshot import DiskMoment


def files_in_use(host: Host, name: str, vm_id: str) -> dict[str, str]:
    """The files that the fleet's running domain writes to, by its disks' targets (``vda``); none
    where it is off.
    """
    found = find_ours(host, name, vm_id)
    if found is None or found.state in OFF:
        return {}
    return {each.target: each.path for each in domainxml.disks(host.domains.live_xml(name))}


def files_open(host: Host, name: str, vm_id: str) -> frozenset[str]:
    """All files that the fleet's running domain has open, those below its disks included."""
    found = find_ours(host, name, vm_id)
    if found is None or found.state in OFF:
        return frozenset()
    return domainxml.disk_files(host.domains.live_xml(name))


@dataclass(frozen=True, slots=True)
class SwitchDisks(Step):
    """Have the VM go on in other files, if it runs: all disks at one moment.

    It is defined with them already, so that a VM that is off, or goes off meanwhile, starts with
    them. ``files`` are paths by the disks' targets. A VM that was off when this was planned
    (``moment``) must be off still, or its disks would be of another moment than the record says.
    """

    settles: ClassVar[bool] = True

    name: str
    vm_id: str
    files: Mapping[str, str]
    moment: DiskMoment

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"change over the disks of {self.name}"

    def look(self, host: Host) -> Observed:
        """Does it write to these files, or to none?"""
        now = files_in_use(host, self.name, self.vm_id)
        there = {target for target, path in self.files.items() if now.get(target) == path}
        if not now or there == set(self.files):
            return InState()
        if there:
            return Unknown(f"{self.name} runs with some of its new files and some of the old ones")
        return Differs("it writes to the files that it had")

    def act(self, host: Host, clock: Clock) -> None:
        """Change over, and read back."""
        if isinstance(self.look(host), InState):
            return
        if self.moment is DiskMoment.OFF:
            raise Conflict(
                f"{self.name} runs on {host.name}",
                why="another hand started it meanwhile",
                next="the same command again",
            )
        uuid = ours_of(host, self.name, self.vm_id)
        host.domains.switch_disks(uuid, self.files, freeze=self._freezes)
        if not isinstance(self.look(host), InState):
            raise Conflict(f"{self.name} did not change over to its new files on {host.name}")

    def undo(self, host: Host) -> None:
        """It has not happened; a guest that a cut call left frozen writes again."""
        ThawGuest(self.name, self.vm_id).undo(host)

    @property
    def _freezes(self) -> bool:
        return self.moment is DiskMoment.FROZEN


@dataclass(frozen=True, slots=True)
class StopToRevert(StopDomain):
    """Stop a domain whose disks are brought back, to be started again."""

    def undo(self, host: Host) -> None:
        """Start it again; where the host refuses that, it is undone later."""
        if ours := ours_of(host, self.name, self.vm_id):
            host.domains.start(ours)


@dataclass(frozen=True, slots=True)
class MarkSwitched(Step):
    """Have the running domain say of which generation it is, as its definition does: a ledger that
    is older than the change shows by that.
    """

    name: str
    vm_id: str
    mark: Ownership

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"mark domain {self.name}"

    def look(self, host: Host) -> Observed:
        """Does it carry the mark?"""
        found = find_ours(host, self.name, self.vm_id)
        carried = found is None or found.ownership == self.mark
        return InState() if carried else Differs("its mark is of an earlier generation")

    def act(self, host: Host, clock: Clock) -> None:
        """Mark it, if it is there and says otherwise."""
        if not isinstance(self.look(host), InState):
            host.domains.set_ownership(self.name, self.mark)

    def undo(self, host: Host) -> None:
        """A change over that is settled is not undone."""


@dataclass(frozen=True, slots=True)
class ThawGuest(Step):
    """Let the guest write again. libvirt does so itself, unless it ends meanwhile."""

    name: str
    vm_id: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"thaw the guest of {self.name}"

    def look(self, host: Host) -> Observed:
        """libvirt does not tell; to do it again does no harm."""
        return Differs("it may be frozen")

    def act(self, host: Host, clock: Clock) -> None:
        """Thaw it, if its domain is there."""
        self.undo(host)

    def undo(self, host: Host) -> None:
        """The same."""
        if ours := ours_of(host, self.name, self.vm_id):
            host.domains.thaw(ours)


@dataclass(frozen=True, slots=True)
class DissolveVolume(Step):
    """Have a volume read as before without the one that it is laid over, which stays as it is.

    ``path`` is its file, ``over`` the other's, ``below`` what that is laid over (empty: nothing).
    ``disk`` is the target (``vda``) of the VM's disk that it is, empty where it is one of a
    snapshot: only a disk that the VM writes to is worked on while the VM runs.
    """

    name: str
    vm_id: str
    disk: str
    path: str
    over: str
    below: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"have {posixpath.basename(self.path)} stand without {posixpath.basename(self.over)}"

    def look(self, host: Host) -> Observed:
        """What does its header say that it is laid over?"""
        found = backing_file(host, self.path)
        if found == self.below:
            return InState()
        if found == self.over:
            return Differs("it is laid over it")
        return Unknown(f"{self.path} is laid over {found or 'nothing'}, not {self.over}")

    def act(self, host: Host, clock: Clock) -> None:
        """The same, where no caller waits for it."""
        self.within(host, StepSurroundings(clock, threading.Event(), lambda _: None))

    def within(self, host: Host, around: StepSurroundings) -> None:
        """QEMU does it for a VM that runs, qemu-img for one that is off; then it is read back."""
        if files_in_use(host, self.name, self.vm_id).get(self.disk) == self.path:
            self._pull(host, around)
        else:
            folder = {"path": self.path, "pool_path": posixpath.dirname(self.path)}
            host.helper.call("overlay_dissolve", {**folder, "below": self.below})
        if not isinstance(seen := self.look(host), InState):
            why = seen.what if isinstance(seen, Differs) else seen.why
            raise HostRefused(f"{self.summary}: {host.name} did not do it", why=why)

    def undo(self, host: Host) -> None:
        """It reads as before either way."""
        if self.disk and (ours := ours_of(host, self.name, self.vm_id)):
            host.domains.cancel_pull(ours, self.disk)

    def _pull(self, host: Host, around: StepSurroundings) -> None:
        host.domains.pull_disk(ours_of(host, self.name, self.vm_id), self.disk, self.below)
        told = -1.0
        while (left := host.domains.pull_progress(self.name, self.disk)) is not None:
            if around.stop.is_set():
                raise Interrupted(f"{self.summary}: interrupted")
            done = 1 - left.left_bytes / (left.total_bytes or 1)
            if done - told >= TOLD_EVERY:
                told = done
                around.tell(f"{self.summary}: {done:.0%}")
            around.clock.wait(POLL_S)


def backing_file(host: Host, path: str) -> str:
    """The file that a qcow2 file is laid over, by its own header; empty for none."""
    asked = {"path": path, "pool_path": posixpath.dirname(path)}
    return str(host.helper.call("image_inspect", asked).get("backing") or "")


@dataclass(frozen=True, slots=True)
class DeleteLeft(DeleteReplaced):
    """Delete a volume that the VM needs no more; never one that it runs with."""

    vm: str
    vm_id: str

    def act(self, host: Host, clock: Clock) -> None:
        """Delete it; Conflict while the VM has it open."""
        found = host.storage.look(self.pool, self.name)
        if found is not None and found.path in files_open(host, self.vm, self.vm_id):
            raise Conflict(
                f"{self.vm} runs on {host.name} with volume {self.pool}/{self.name}",
                why="another hand started it meanwhile",
                next=f"vgpumgr vm stop {self.vm}, then the same command again",
            )
        host.storage.delete(self.pool, self.name)
