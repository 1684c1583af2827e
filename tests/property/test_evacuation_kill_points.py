"""The engine's process dies at any durable write of an evacuation, and of what follows when the
lost host returns, over the real helper and simulated drivers.

The VM then runs on one host at most, no unit has two owners, and what it held on the lost host it
holds until it is elsewhere. Afterwards the same command, ``resume`` or ``undo`` ends with all of it
on one host; once the lost one is back and tidied, nothing of it is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.fencing import SimFencing
from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.hosts import host_return
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.domain import DomainState
from vgpumgr.model.host import Fence, HostRecord
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.vm import VmState
from vgpumgr.model.vm_devices import DiskSpec

POOLS = {"pools": ("default", "nas"), "shared_pools": ("nas",)}
DISKS = (DiskSpec(pool="nas", size_bytes=1 << 20),)
FENCE = Fence(off=("/bin/off",), status=("/bin/status",))
WAYS: dict[str, tuple[str, GpuLayout | None, str]] = {
    "mdev": ("T4", None, "T4-8Q"),
    "vfio VF": ("L40S", GpuLayout(vfs=VFS_MAX), "L40S-24Q"),
}


class MortalToo(Mortal):
    """A mark on a host is a durable write as well."""

    def update_host(self, record: HostRecord) -> None:
        self._write(lambda: self._ledger.update_host(record))  # type: ignore[attr-defined]


class Bench:
    """A VM on h1, which can be fenced; h2 is alike. What h1 showed before there was a VM."""

    def __init__(self, folder: Path, way: str) -> None:
        board, layout, profile = WAYS[way]
        folder.mkdir()
        self.world = SimWorld(folder, host(board, **POOLS), host(board, name="h2", **POOLS))
        self.world.engine = replace(self.world.engine, fencing=SimFencing(self.world.sim))
        if layout is not None:
            self.world.cut(layout, "h1")
            self.world.cut(layout, "h2")
        for name in ("h1", "h2"):
            self.world.sim.host(name).install()
            self.change(name, fence=FENCE)
        self.empty = self.claims()
        self.change("h2", cordoned=True)
        self.world.apply(vm("desk", profile, disks=DISKS))
        self.change("h2", cordoned=False)

    def change(self, name: str, **fields: object) -> None:
        record = self.world.ledger.host(name)
        self.world.ledger.update_host(replace(record, **fields))  # type: ignore[arg-type]

    def claims(self) -> dict[str, set[str]]:
        facts = {name: self.world.facts(name) for name in ("h1", "h2")}
        return {name: {each.allocation for each in f.claims} for name, f in facts.items()}

    def killed(self, command: Callable[[Engine], object], at: int, *, after: bool) -> bool:
        mortal = MortalToo(self.world.ledger, at, after=after)
        try:
            command(replace(self.world.engine, ledger=mortal))  # type: ignore[arg-type]
        except Killed:
            self.world.restart()
            return True
        return False

    def states(self) -> dict[str, DomainState]:
        """Of the domain, on hosts that are switched on."""
        found = {name: self.world.sim.host(name).domains.look("desk") for name in ("h1", "h2")}
        return {name: each.state for name, each in found.items() if each is not None}

    def assert_sound(self) -> None:
        """Whatever has died: never two that run, no unit twice, no VM without what it holds."""
        assert list(self.states().values()).count(DomainState.RUNNING) <= 1
        held = self.world.ledger.allocations()
        taken = Counter((each.gpu, slot) for each in held for slot in each.slots)
        assert all(number == 1 for number in taken.values())
        [desk] = self.world.ledger.vms()
        assert desk.host in {each.host for each in held}

    def assert_all_on(self, name: str) -> None:
        """It lies there and holds units there alone."""
        [desk] = self.world.ledger.vms()
        assert (desk.host, desk.state, desk.moving_to) == (name, VmState.ACTIVE, None)
        assert {each.host for each in self.world.ledger.allocations()} == {name}
        assert not self.world.ledger.operations(open_only=True)

    def lose(self) -> None:
        self.world.sim.inject("h1", ["unreachable"])

    def back(self) -> None:
        for word in ("clear", "off", "on"):
            self.world.sim.inject("h1", [word])

    def bring_home(self) -> None:
        """As it was: the VM on h1, both hosts open and nothing left."""
        self.world.engine.leave_maintenance("h1")
        assert self.states() == {"h2": DomainState.RUNNING}
        assert self.claims()["h1"] == self.empty["h1"]
        self.world.engine.migrate("desk", "h1", cold=True).raise_for_failure()
        self.assert_all_on("h1")


def away(engine: Engine) -> None:
    engine.evacuate("h1")[1].raise_for_failure()


def same(bench: Bench) -> None:
    away(bench.world.engine)


def resume(bench: Bench) -> None:
    for operation in bench.world.ledger.operations(open_only=True):
        bench.world.engine.resume(operation.id).raise_for_failure()
    away(bench.world.engine)  # where nothing was reserved yet


def undo(bench: Bench) -> None:
    for operation in bench.world.ledger.operations(open_only=True):
        bench.world.engine.undo(operation.id)
    bench.assert_sound()
    resume(bench)  # what was settled goes on, what was taken back is begun again


ENDS = (same, resume, undo)


@pytest.mark.parametrize("way", WAYS)
def test_an_evacuation_killed_anywhere_ends_on_one_host(way: str, tmp_path: Path) -> None:
    """Away, back and tidied: each kill point of both with one end after the other."""
    bench = Bench(tmp_path / "way", way)
    turn = list(WAYS).index(way)
    for at in count(1):
        after, end = bool((at + turn) % 2), ENDS[(at + turn) % 3]
        bench.lose()
        killed = bench.killed(away, at, after=after)
        bench.assert_sound()
        end(bench)
        bench.assert_all_on("h2")
        bench.back()
        bench.killed(lambda engine: host_return.remove_remains(engine, "h1"), at, after=not after)
        bench.assert_sound()
        for operation in bench.world.ledger.operations(open_only=True):
            bench.world.engine.resume(operation.id).raise_for_failure()
        bench.bring_home()
        if not killed:
            break
    assert at > 6
    bench.world.close()


def test_a_recovery_killed_anywhere_is_recovered(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "mdev", "mdev")
    for again in count(1):
        bench.lose()
        assert bench.killed(away, 4, after=True)
        killed = bench.killed(away, again, after=bool(again % 2))
        bench.assert_sound()
        same(bench)
        bench.assert_all_on("h2")
        bench.back()
        bench.bring_home()
        if not killed:
            break
    bench.world.close()
