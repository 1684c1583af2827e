"""A pool of desktops on simulated hosts: the engine's own turns, on a clock that is ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fakes import FakeClock
from tests.serving import Served
from tests.simworld import SimWorld, host
from vgpumgr.engine.pools import desktop_assignment, pool_cycle
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.pool import Entitlement, Naming, PoolSpec, Size, Timeouts
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.model.vm_devices import DiskMode, DiskSpec

OLD, NEW, BAD = "cad@1", "cad@2", "cad@3"
SYSTEM = DiskSpec(mode=DiskMode.OVERLAY, image=OLD)
DESKTOP = VmSpec(
    name="cad",
    vcpus=1,
    memory_mib=512,
    firmware="bios",
    gpus=(GpuRequest(profile="T4-4Q"),),
    disks=(SYSTEM,),
)
STAFF = frozenset({"staff"})


def spec(least: int = 0, spare: int = 1, most: int = 4, **changes: Any) -> PoolSpec:
    return replace(
        PoolSpec(
            name="cad",
            image=OLD,
            desktop=DESKTOP,
            naming=Naming("cad-", 2),
            size=Size(min=least, spare=spare, max=most),
            entitlement=Entitlement(groups=STAFF),
            timeouts=Timeouts(),
        ),
        **changes,
    )


class PoolSim:
    """One pool; hosts have images cad@1 and cad@2, and none of cad@3."""

    def __init__(self, folder: Path, pool: PoolSpec, *hosts: str) -> None:
        images = (f"{OLD}.qcow2", f"{NEW}.qcow2")
        self.world = SimWorld(folder, *(host("T4", name=each, images=images) for each in hosts))
        self.clock = FakeClock()
        self.world.engine = replace(self.world.engine, clock=self.clock)
        self.ledger = self.world.ledger
        self.engine = self.world.engine
        self.engine.refresh()
        self.engine.put_pool(pool)

    def turn(self, after_s: float = 0.0) -> pool_cycle.PoolCycleReport:
        """One turn, so much later."""
        self.clock.wait(after_s)
        return pool_cycle.step(self.engine)

    def assign(self, user: str) -> desktop_assignment.AssignedDesktop:
        return self.engine.assign_desktop("cad", user, STAFF)

    def rows(self) -> dict[str, DesktopRecord]:
        return {each.name: each for each in self.ledger.desktops()}

    def states(self) -> dict[str, str]:
        return {name: str(each.desktop.state) for name, each in self.rows().items()}

    def vms(self) -> list[str]:
        return [each.name for each in self.ledger.vms()]


class TwoHosts:
    """A pool whose desktops are on h1, ada on the first of two; h2 has room, and `serve` runs."""

    def __init__(self, folder: Path, pool: PoolSpec) -> None:
        self.sim = PoolSim(folder, pool, "h1", "h2")
        self.mark("h1", migration=MigrationAddress(address="h1"))
        self.mark("h2", migration=MigrationAddress(address="h2"), cordoned=True)
        self.sim.turn()
        assert self.sim.assign("ada").desktop == "cad-01"
        self.sim.turn()
        self.mark("h2", cordoned=False)
        self.served = Served(self.sim.engine)

    def mark(self, name: str, **fields: object) -> None:
        record = self.sim.ledger.host(name)
        self.sim.ledger.update_host(replace(record, **fields))  # type: ignore[arg-type]

    def later(self, seconds: float = 60.0) -> dict[str, tuple[str, str]]:
        """The state and host of each desktop, after hosts and then pools were looked at."""
        self.sim.clock.wait(seconds)
        self.served.controller.once()
        self.sim.turn()
        rows = self.sim.rows().items()
        return {name: (str(row.desktop.state), row.desktop.host) for name, row in rows}
