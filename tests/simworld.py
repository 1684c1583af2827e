"""The whole product over simulated hosts in this process: real helper, real engine, real ledger."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.ledgers import new_ledger
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostFacts, HostRecord, Versions
from vgpumgr.model.layout import GpuLayout, LayoutRule, LayoutSpec
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.model.supply import GpuSupply
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.store import open_ledger

OLD = Versions(kernel="6.1.0-37-amd64", libvirt="9.0.0", qemu="7.2.22", driver="550.54.16")
NEW = Versions(kernel="6.12.43", libvirt="11.3.0", qemu="10.0.2", driver="580.105.06")


class SimWorld:
    """Simulated hosts, all enrolled, and one engine over them."""

    def __init__(
        self,
        folder: Path,
        *hosts: SimHost,
        ledger: str = "",
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._file: str | Path = ledger or folder / "ledger.db"
        if isinstance(self._file, Path):
            new_ledger(self._file)
        self.ledger = open_ledger(self._file)
        identity = (self.ledger.fleet_id(), self.ledger.epoch())
        self.hosts = InProcessHosts(
            SimFleet(name="tests", hosts=hosts), identity=lambda: identity, clock=clock
        )
        self.sim = self.hosts.fleet
        for host in hosts:
            self.ledger.add_host(HostRecord(name=host.name, address=f"sim://{host.name}"))
        self.engine = Engine(
            ledger=self.ledger,
            hosts=self.hosts,
            lanes=SerialWorkers(),
            clock=SystemClock(),
            new_uuid=lambda: str(uuid.uuid4()),
            stop=threading.Event(),
        )

    def restart(self) -> None:
        """The engine's process is gone with its claims, the hosts are not; a new one comes."""
        self.ledger.close()
        self.ledger = open_ledger(self._file)
        self.engine = replace(self.engine, ledger=self.ledger)

    def close(self) -> None:
        self.hosts.close()
        self.ledger.close()

    def cut(self, layout: GpuLayout, host: str = "h1") -> Outcome:
        """Apply a layout to every GPU of a host."""
        spec = LayoutSpec(name="cut", hosts=(host,), rules=(LayoutRule(layout=layout),))
        _, outcome = self.engine.layout_apply([spec])
        outcome.raise_for_failure()
        return outcome

    def apply(self, *vms: VmSpec) -> None:
        """Make VMs; every failure is raised."""
        self.engine.apply(vms)[1].raise_for_failure()

    def delete(self, *names: str) -> None:
        self.engine.delete(names, keep_disks=False, force=True).raise_for_failure()

    def facts(self, host: str = "h1") -> HostFacts:
        """What a fresh probe shows."""
        return self.hosts.open(self.ledger.host(host)).probe()

    def gpu(self, number: int = 0, host: str = "h1") -> GpuFacts:
        return self.facts(host).gpus[number]

    def supply(self, number: int = 0, host: str = "h1") -> GpuSupply:
        self.engine.refresh()
        fleet = build_fleet(self.engine.view())
        return next(each for each in fleet.hosts if each.name == host).gpus[number]


def host(*boards: str, versions: Versions = NEW, name: str = "h1", **fields: object) -> SimHost:
    """A simulated host with one GPU of each board named."""
    made = tuple(SimBoard(board=board) for board in boards)
    defaults: dict[str, object] = {"cpus": 256, "memory_mib": 4 << 20, "versions": versions}
    return SimHost(name=name, boards=made, **(defaults | fields))  # type: ignore[arg-type]


def vm(name: str, *profiles: str, **fields: object) -> VmSpec:
    """A small VM with a GPU part of each profile."""
    gpus: Sequence[GpuRequest] = tuple(GpuRequest(profile=profile) for profile in profiles)
    defaults: dict[str, object] = {"vcpus": 1, "memory_mib": 512, "gpus": gpus, "firmware": "bios"}
    return VmSpec(name=name, **(defaults | fields))  # type: ignore[arg-type]
