"""A whole engine over one host whose guests' disks can be written to and read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tests.ledgers import new_ledger
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.model.domain import OFF, VolumeFacts
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ports import Host, Hosts
from vgpumgr.model.vm import VmRecord, VmSpec
from vgpumgr.model.vm_devices import DiskSpec
from vgpumgr.store import open_ledger

BACKUPS = "backups"
MIB = 1 << 20
HOST = "h1"
WRITES = ("reserve", "record")


@dataclass(frozen=True)
class TestedPool:
    """A storage pool, and what differs by its kind. ``running``: what a VM that runs has on its
    disks can be kept; ``layered``: a volume names what it is laid over.
    """

    __test__ = False

    name: str = "default"
    format: str = "qcow2"
    running: bool = True
    layered: bool = True

    def disk(self, mib: int) -> DiskSpec:
        return DiskSpec(pool=self.name, size_bytes=mib * MIB, format=self.format)


FILES = TestedPool()
NFS = TestedPool(name="nas")
LVM = TestedPool(name="fast", format="raw", running=False, layered=False)
CEPH = TestedPool(name="ceph", format="raw", running=False, layered=False)


class Killed(BaseException):
    """The process ends here."""


class DyingLedger:
    """Fulfils ``ports.Ledger`` until the ``fuse``-th of its writes: that one is the last, or was
    the last before it. Nothing is written by a process that has ended.
    """

    def __init__(self, ledger: Ledger, fuse: int, *, after: bool) -> None:
        self._ledger = ledger
        self._left = fuse
        self._after = after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ledger, name)
        return partial(self._write, found) if name in WRITES else found

    def _write(self, write: Callable[..., Any], *args: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left < 0 or (self._left == 0 and not self._after):
            raise Killed
        answer = write(*args, **named)
        if self._left == 0:
            raise Killed
        return answer


class GuestDisks(Protocol):
    """The guest's side of its disks, behind the engine's back."""

    def write(self, domain: str, disk: VolumeFacts, value: int) -> None:
        """The guest fills the beginning of a disk with bytes of that value."""

    def read(self, domain: str, disk: VolumeFacts) -> int:
        """The value of the disk's first byte, as the guest reads it."""


class DiskBench:
    """Enrolled hosts, one of which is looked ``at``. The engine's process may be killed, and there
    is another one then.
    """

    def __init__(
        self,
        folder: Path,
        hosts: Callable[[Ledger], tuple[Hosts, HostRecord]],
        pool: TestedPool = FILES,
    ) -> None:
        self.at = HOST
        self.pool = pool
        self.two = (pool.disk(4), pool.disk(8))
        self._file = folder / f"{uuid.uuid4()}.db"
        new_ledger(self._file)
        self.ledger = open_ledger(self._file)
        way, record = hosts(self.ledger)
        self.ledger.add_host(record)
        self.engine = Engine(
            ledger=self.ledger,
            hosts=way,
            lanes=SerialWorkers(),
            clock=SystemClock(),
            new_uuid=lambda: str(uuid.uuid4()),
        )
        self.engine.refresh()
        self.disks: GuestDisks | None = None
        self.there_before = self.volumes()

    @property
    def host(self) -> Host:
        return self.engine.host(self.at)

    def vm(self, name: str = "a") -> VmRecord:
        return self.ledger.vm(name)

    def make(self, *disks: DiskSpec, name: str = "a", uuid: str = "") -> None:
        spec = VmSpec(name=name, vcpus=1, memory_mib=64, firmware="bios", disks=disks, uuid=uuid)
        self.engine.apply([spec])[1].raise_for_failure()

    def stop(self, name: str = "a") -> None:
        self.engine.stop_vms([name], force=True, timeout_s=20.0).raise_for_failure()

    def start(self, name: str = "a") -> None:
        self.engine.start([name]).raise_for_failure()

    def runs(self, name: str = "a") -> bool:
        found = self.host.domains.look(name)
        return found is not None and found.state not in OFF

    def write(self, value: int, name: str = "a") -> None:
        for each in self._files(name):
            assert self.disks is not None
            self.disks.write(name, each, value)

    def read(self, name: str = "a") -> list[int]:
        assert self.disks is not None
        return [self.disks.read(name, each) for each in self._files(name)]

    def _files(self, name: str) -> Iterator[VolumeFacts]:
        for pool, volume in self.vm(name).volumes:
            found = self.host.storage.look(pool, volume)
            assert found is not None, f"{volume} is not there"
            yield found

    def volumes(self) -> set[str]:
        return {each.name for each in self.host.storage.volumes(self.pool.name)}

    def backed_up(self) -> set[str]:
        """The volumes of backups."""
        return {each.name for each in self.host.storage.volumes(BACKUPS)}

    def forget_backups(self) -> None:
        """Delete every backup, and see that nothing of them is left."""
        for each in reversed(self.ledger.vm_backups()):
            self.engine.delete_backup(each).raise_for_failure()
        assert self.backed_up() == set()

    def owned(self) -> set[str]:
        """The volumes of the pool that the ledger knows of."""
        volumes = [each for vm in self.ledger.vms() for each in vm.every_volume]
        return {name for pool, name in volumes if pool == self.pool.name}

    def nothing_is_left(self) -> bool:
        """Is every volume of the pool one that the ledger knows of, or that was there before?"""
        return self.volumes() == self.there_before | self.owned()

    def killed(self, command: Callable[[Engine], Outcome], point: int, *, after: bool) -> bool:
        """Run a command that is killed at its n-th write; False where it ended before."""
        dying: Any = DyingLedger(self.ledger, point, after=after)
        try:
            command(replace(self.engine, ledger=dying)).raise_for_failure()
        except Killed:
            self.restart()
            return True
        return False

    def restart(self) -> None:
        """A new process, with the same ledger."""
        self.ledger.close()
        self.ledger = open_ledger(self._file)
        self.engine = replace(self.engine, ledger=self.ledger)

    def unfinished(self) -> list[str]:
        """The operations that are open."""
        return [each.id for each in self.ledger.operations(open_only=True)]

    def clear(self) -> None:
        """Take every VM away, and see that nothing of them is left."""
        for operation in self.unfinished():
            self.engine.resume(operation)
        self.forget_backups()
        names = [each.name for each in self.ledger.vms()]
        if names:
            self.engine.delete(names, keep_disks=False, force=True).raise_for_failure()
        assert self.volumes() == self.there_before
