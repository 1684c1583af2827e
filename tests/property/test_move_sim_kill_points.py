"""The engine's process dies at any durable write of a move, or in any phase of libvirt's protocol,
over the real helper and simulated drivers.

The VM then runs on one host at most and is defined on one at least; afterwards ``resume``, ``undo``
or the same command leaves all of it on one host and nothing on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.domain import DomainFacts, DomainState, MigrationAddress
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.vm import VmState
from vgpumgr.model.vm_devices import DiskSpec
from vgpumgr.sim.transport import move_client

DISKS = (DiskSpec(size_bytes=1 << 20),)
# board, layout of both, profile, cold
WAYS: dict[str, tuple[str, GpuLayout | None, str, bool]] = {
    "mdev": ("T4", None, "T4-8Q", False),
    "vfio VF": ("L40S", GpuLayout(vfs=VFS_MAX), "L40S-8Q", False),
    "instance": (
        "A100-PCIE-80GB",
        GpuLayout(mig=True, vfs=VFS_MAX, instances=()),
        "3g.40gb",
        False,
    ),
    "whole": ("T4", None, "passthrough", True),
    "plain VF": ("FLEX-170", GpuLayout(vfs=5), "FLEX-170-1of5", True),
}


class Bench:
    """Two hosts alike, a VM on h1, and what each host showed before there was one."""

    def __init__(self, folder: Path, way: str) -> None:
        board, layout, profile, self.cold = WAYS[way]
        folder.mkdir()
        self.world = SimWorld(folder, host(board), host(board, name="h2"))
        for name in ("h1", "h2"):
            if layout is not None:
                self.world.cut(layout, name)
            record = self.world.ledger.host(name)
            to = MigrationAddress(address=name)
            self.world.ledger.update_host(replace(record, migration=to))
        self.claims = {name: self._claims(name) for name in ("h1", "h2")}
        self.cordon("h2", on=True)
        self.world.apply(vm("desk", profile, disks=DISKS, autostart=True))
        self.cordon("h2", on=False)

    def cordon(self, name: str, *, on: bool) -> None:
        record = self.world.ledger.host(name)
        self.world.ledger.update_host(replace(record, cordoned=on))

    def move(self, engine: Engine, to: str) -> None:
        engine.migrate("desk", to, cold=self.cold).raise_for_failure()

    def killed(self, to: str, at: int, *, after: bool) -> bool:
        mortal = Mortal(self.world.ledger, at, after=after)
        try:
            self.move(replace(self.world.engine, ledger=mortal), to)  # type: ignore[arg-type]
        except Killed:
            self.world.restart()
            return True
        return False

    def domains(self) -> dict[str, DomainFacts]:
        found = {
            name: self.world.hosts.open(self.world.ledger.host(name)).domains.look("desk")
            for name in ("h1", "h2")
        }
        return {name: facts for name, facts in found.items() if facts is not None}

    def assert_never_twice(self) -> None:
        found = self.domains()
        assert any(each.persistent for each in found.values())
        assert sum(each.state is DomainState.RUNNING for each in found.values()) <= 1

    def assert_settled(self) -> str:
        """All of it is on one host, and the other is as if it had never been there."""
        [desk] = self.world.ledger.vms()
        assert (desk.state, desk.moving_to) == (VmState.ACTIVE, None)
        assert not self.world.ledger.operations(open_only=True)
        assert {name: each.state for name, each in self.domains().items()} == {
            desk.host: DomainState.RUNNING
        }
        [held] = self.world.ledger.allocations()
        assert held.host == desk.host
        other = "h1" if desk.host == "h2" else "h2"
        assert self._claims(other) == self.claims[other]
        assert self._claims(desk.host) - self.claims[desk.host] == {held.id}
        facts = self.world.facts(desk.host)
        assert {each.uuid for each in facts.mdevs} <= {held.device}
        assert self.world.facts(other).mdevs == ()
        [domain] = facts.domains
        assert set(domain.devices) == {held.device, *held.companions}
        assert domain.autostart
        for name in ("h1", "h2"):
            storage = self.world.hosts.open(self.world.ledger.host(name)).storage
            [(pool, volume)] = desk.volumes
            assert (storage.look(pool, volume) is not None) == (name == desk.host)
        return desk.host

    def _claims(self, name: str) -> set[str]:
        return {each.allocation for each in self.world.facts(name).claims}


def same(bench: Bench, to: str) -> None:
    if bench.world.ledger.vm("desk").host != to:
        bench.move(bench.world.engine, to)
    resume(bench, to)  # where only the operation's own end was lost


def resume(bench: Bench, _: str) -> None:
    for operation in bench.world.ledger.operations(open_only=True):
        bench.world.engine.resume(operation.id).raise_for_failure()


def undo(bench: Bench, to: str) -> None:
    for operation in bench.world.ledger.operations(open_only=True):
        bench.world.engine.undo(operation.id)
    resume(bench, to)


ENDS: tuple[Callable[[Bench, str], None], ...] = (same, resume, undo)


@pytest.mark.parametrize("way", WAYS)
def test_a_move_killed_anywhere_ends_on_one_host(way: str, tmp_path: Path) -> None:
    """There and back: each kill point with one end after the other."""
    bench = Bench(tmp_path / "way", way)
    bench.assert_settled()
    turn = list(WAYS).index(way)
    for at in count(1):
        after, end = bool((at + turn) % 2), ENDS[(at + turn) % 3]
        to = "h2" if bench.world.ledger.vm("desk").host == "h1" else "h1"
        killed = bench.killed(to, at, after=after)
        bench.assert_never_twice()
        end(bench, to)
        assert bench.assert_settled() == to or end is undo or at == 1, f"killed at write {at}"
        if not killed:
            break
    assert at > 9
    bench.world.close()


PHASES = ("begin", "prepare", "perform", "finish", "confirm")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_client_that_dies_in_a_phase_leaves_one_that_lives(
    phase: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path / "mdev", "mdev")
    do = move_client._Drive._do

    def dying(drive: move_client._Drive, at: str, method: str, **arguments: object) -> object:
        if method == phase and not after:
            raise Killed
        answer = do(drive, at, method, **arguments)
        if method == phase:
            raise Killed
        return answer

    for end in ENDS:
        to = "h2" if bench.world.ledger.vm("desk").host == "h1" else "h1"
        with monkeypatch.context() as patched:
            patched.setattr(move_client._Drive, "_do", dying)
            with pytest.raises(Killed):
                bench.move(bench.world.engine, to)
        bench.world.restart()
        bench.assert_never_twice()
        end(bench, to)
        assert bench.assert_settled() == to or end is undo
    bench.world.close()
