"""A small fleet for engine tests: fake hosts, a real ledger file, engines over both."""

from __future__ import annotations

import copy
import shutil
import threading
import uuid
from pathlib import Path

from tests.fakes import FakeClock, FakeHost, FakeHosts
from tests.ledgers import new_ledger
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.vm import GpuRequest, VmRecord, VmSpec, VmState
from vgpumgr.model.vm_devices import CloudInit, DiskMode, DiskSpec, NicSpec
from vgpumgr.store import open_ledger
from vgpumgr.store.sql_ledger import SqlLedger

IMAGE = "debian.qcow2"


class World:
    """Hosts and one ledger file. ``engine`` and ``ledger`` are the first process's."""

    def __init__(self, folder: Path, *hosts: FakeHost) -> None:
        self.path = folder / "ledger.db"
        self.hosts = {host.name: host for host in hosts or (FakeHost(),)}
        self.clock = FakeClock()
        self._opened: list[SqlLedger] = []
        new_ledger(self.path)
        self.ledger = self.open()
        for host in self.hosts.values():
            host.fleet = self.ledger.fleet_id()
            host.images.setdefault(IMAGE, {})
            self.ledger.add_host(HostRecord(name=host.name, address=f"root@{host.name}"))
        self.engine = self.engine_over(self.ledger)

    @property
    def host(self) -> FakeHost:
        """The only host, or the first."""
        return next(iter(self.hosts.values()))

    def open(self) -> SqlLedger:
        """One more process's view of the ledger file."""
        self._opened.append(open_ledger(self.path, now=self.clock.now))
        return self._opened[-1]

    def engine_over(self, ledger: Ledger) -> Engine:
        """An engine of its own over these hosts."""
        return Engine(
            ledger=ledger,
            hosts=FakeHosts(self.hosts),
            lanes=SerialWorkers(),
            clock=self.clock,
            new_uuid=lambda: str(uuid.uuid4()),
            stop=threading.Event(),
        )

    def restart(self) -> Engine:
        """The process is gone with its claims; a new one over the same file."""
        self.close()
        self.ledger = self.open()
        self.engine = self.engine_over(self.ledger)
        return self.engine

    def twin(self, folder: Path) -> World:
        """The same hosts and the same ledger once more; this one is closed by it."""
        self.close()
        folder.mkdir()
        twin = copy.copy(self)
        twin.path = folder / self.path.name
        shutil.copy(self.path, twin.path)
        twin.hosts = copy.deepcopy(self.hosts)
        twin._opened = []
        twin.ledger = twin.open()
        twin.engine = twin.engine_over(twin.ledger)
        return twin

    def close(self) -> None:
        """Close every ledger."""
        while self._opened:
            self._opened.pop().close()

    def vm(self, name: str) -> VmRecord:
        return self.ledger.vm(name)

    def names(self) -> list[str]:
        return [vm.name for vm in self.ledger.vms()]

    def free_slots(self) -> int:
        """Memory slots of the fleet that no allocation holds."""
        held = sum(len(allocation.slots) for allocation in self.ledger.allocations())
        return sum(gpu.units for gpu in self.ledger.gpus()) - held

    def settled(self) -> bool:
        """No operation waits, and every VM is as its user wants it."""
        active = all(vm.state is VmState.ACTIVE for vm in self.ledger.vms())
        return active and not self.ledger.operations(open_only=True)


def vm(name: str = "web", profile: str = "", **fields: object) -> VmSpec:
    """A VM with at most one GPU part."""
    gpus = (GpuRequest(profile=profile),) if profile else ()
    defaults: dict[str, object] = {"vcpus": 2, "memory_mib": 2048, "gpus": gpus}
    return VmSpec(name=name, **(defaults | fields))  # type: ignore[arg-type]


def with_disk(name: str = "web", profile: str = "T4-4Q", **fields: object) -> VmSpec:
    """A VM with a copied disk, a seed and a NIC."""
    disk = DiskSpec(mode=DiskMode.COPY, image=IMAGE, size_bytes=1 << 30)
    nic = NicSpec(network="default")
    seed = CloudInit(user_data="#cloud-config\n")
    return vm(name, profile, disks=(disk,), nics=(nic,), cloud_init=seed, **fields)


LOOKS = frozenset({"probe", "look", "mdev_look", "vfio_look", "volume_look", "image_inspect"})
LOOKS |= {"live_xml", "cpu_fits", "kept_beside", "migration_progress", "volume_xml", "file_digest"}


def effects(host: FakeHost) -> list[str]:
    """The calls that changed something, or tried to, in order."""
    return [name for name, _ in host.calls if name not in LOOKS]
