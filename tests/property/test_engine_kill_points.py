"""The process dies at any durable transition, just before or just after it is on disk.

The same command, typed again, must then end as if nothing had happened: every VM as wanted, no
leftovers on the host, no unit held twice.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.world import World, vm, with_disk
from vgpumgr.model.operation import Reservation, Transition

SPECS = (with_disk("a", "T4-4Q"), vm("b", "passthrough"), vm("c"))


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


class Mortal:
    """A ledger whose process dies at its n-th durable write."""

    def __init__(self, ledger: object, at: int, *, after: bool) -> None:
        self._ledger = ledger
        self._left = at
        self._after = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def record(self, *transitions: Transition) -> None:
        self._write(lambda: self._ledger.record(*transitions))  # type: ignore[attr-defined]

    def reserve(self, reservation: Reservation) -> None:
        self._write(lambda: self._ledger.reserve(reservation))  # type: ignore[attr-defined]

    def _write(self, write: Callable[[], None]) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        write()
        if self._left == 0:
            raise Killed


def two_gpus(folder: Path) -> World:
    folder.mkdir()
    gpus, parents = [t4(0), t4(1)], [t4_parent(0), t4_parent(1)]
    return World(folder, FakeHost(gpus=gpus, parents=parents))


def apply(world: World, ledger: object) -> None:
    world.engine_over(ledger).apply(SPECS)  # type: ignore[arg-type]


def delete(world: World, ledger: object) -> None:
    names = [vm.name for vm in world.ledger.vms()]
    world.engine_over(ledger).delete(names, keep_disks=False, force=True)  # type: ignore[arg-type]


def killed_at(
    world: World, command: Callable[[World, object], None], at: int, *, after: bool
) -> bool:
    """Run the command with a kill at the n-th write; False when it had fewer."""
    try:
        command(world, Mortal(world.ledger, at, after=after))
    except Killed:
        world.restart()
        return True
    return False


def finished(world: World) -> bool:
    return world.settled() and len(world.names()) == len(SPECS)


def assert_sound(world: World) -> None:
    """Ledger and host agree; no slot has two owners."""
    held = world.ledger.allocations()
    slots = sorted((each.gpu, slot) for each in held for slot in each.slots)
    assert all(one != other for one, other in pairwise(slots))
    claims = {str(claim["allocation"]) for claim in world.host.claims.values()}
    assert claims == {each.id for each in held}
    assert {vm.id for vm in world.ledger.vms()} >= {each.vm_id for each in held}
    devices = {d for domain in world.host.domains_by_name.values() for d in domain.devices}
    assert devices == {each.device for each in held}
    assert world.settled()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_apply_killed_anywhere_is_finished_by_the_same_apply(
    tmp_path: Path, after: bool
) -> None:
    undisturbed = two_gpus(tmp_path / "undisturbed")
    apply(undisturbed, undisturbed.ledger)
    for at in count(1):
        world = two_gpus(tmp_path / str(at))
        killed = killed_at(world, apply, at, after=after)
        plan, outcome = world.engine.apply(SPECS)
        outcome.raise_for_failure()
        assert world.host.left() == undisturbed.host.left(), f"killed at write {at}"
        assert_sound(world)
        assert world.free_slots() == undisturbed.free_slots() == 12
        world.close()
        if not killed:
            assert plan.changes == 0
            break
    assert at > 10
    undisturbed.close()


def test_an_apply_killed_anywhere_can_be_undone(tmp_path: Path) -> None:
    """What was finished stays, what was not is gone."""
    for at in count(2):
        world = two_gpus(tmp_path / str(at))
        killed = killed_at(world, apply, at, after=False)
        for operation in world.ledger.operations(open_only=True):
            world.engine.undo(operation.id)
        assert_sound(world)
        assert set(world.names()) == set(world.host.domains_by_name)
        assert len(world.host.volumes) == (2 if "a" in world.names() else 0)
        world.close()
        if not killed:
            break
    assert at > 10


def test_an_undo_killed_anywhere_ends_well(tmp_path: Path) -> None:
    """The host refuses the first VM's start; the process dies while taking it back."""
    undisturbed = two_gpus(tmp_path / "undisturbed")
    apply(undisturbed, undisturbed.ledger)
    for at in count(1):
        world = two_gpus(tmp_path / str(at))
        world.host.refuse("start", about="a")
        killed = killed_at(world, apply, at, after=False)
        while not finished(world):
            world.engine.apply(SPECS)
        assert world.host.left() == undisturbed.host.left(), f"killed at write {at}"
        assert_sound(world)
        world.close()
        if not killed:
            break
    assert at > 14
    undisturbed.close()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_delete_killed_anywhere_is_finished_by_the_same_delete(
    tmp_path: Path, after: bool
) -> None:
    for at in count(1):
        world = two_gpus(tmp_path / str(at))
        empty = world.host.left()
        apply(world, world.ledger)
        killed = killed_at(world, delete, at, after=after)
        delete(world, world.ledger)
        assert world.host.left() == empty, f"killed at write {at}"
        assert_sound(world)
        assert (world.names(), world.free_slots()) == ([], 32)
        world.close()
        if not killed:
            break
    assert at > 8
