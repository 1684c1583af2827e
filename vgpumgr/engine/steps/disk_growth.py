"""The step that makes a disk larger under a guest that runs."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.steps.domain_steps import find_ours
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import HostRefused, NotFound
from vgpumgr.model.formats import size_words
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class GrowDisk(Step):
    """Have QEMU make a running VM's disk as large as that, and the guest see it. The volume of one
    that went off meanwhile is made larger by its storage. No disk gets smaller.

    ``disk`` is its target (``vda``). A volume that QEMU cannot make larger itself is so already.
    """

    vm: str
    vm_id: str
    disk: str
    pool: str
    name: str
    capacity_bytes: int

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"grow disk {self.disk} of {self.vm} to {size_words(self.capacity_bytes)}"

    def look(self, host: Host) -> Observed:
        """Is it as large as that for its guest, or in its storage where it is off?"""
        found = self._bytes(host)
        return InState() if found >= self.capacity_bytes else Differs(f"it has {found} bytes")

    def act(self, host: Host, clock: Clock) -> None:
        """Make it larger, and read back."""
        if isinstance(self.look(host), InState):
            return
        if uuid := self._running(host):
            there = host.storage.look(self.pool, self.name)
            size = max(self.capacity_bytes, there.capacity_bytes if there else 0)
            host.domains.grow_disk(uuid, self.disk, size)
        else:
            host.storage.grow(self.pool, self.name, self.capacity_bytes)
        if (now := self._bytes(host)) < self.capacity_bytes:
            raise HostRefused(
                f"disk {self.disk} of {self.vm} did not grow on {host.name}",
                why=f"it has {now} bytes, {self.capacity_bytes} were asked for",
                next=f"vgpumgr vm stop {self.vm}, then the same command again",
            )

    def undo(self, host: Host) -> None:
        """It stays larger than its VM asks for, and loses nothing."""

    def _running(self, host: Host) -> str:
        """The UUID of the running domain; empty where it is off."""
        found = find_ours(host, self.vm, self.vm_id)
        return found.uuid if found is not None and found.state not in OFF else ""

    def _bytes(self, host: Host) -> int:
        if uuid := self._running(host):
            return host.domains.disk_bytes(uuid, self.disk)
        found = host.storage.look(self.pool, self.name)
        if found is None:
            raise NotFound(f"volume {self.pool}/{self.name} is not on {host.name}")
        return found.capacity_bytes
