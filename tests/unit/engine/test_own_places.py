"""A new seat in the place of a VM's own GPU parts: released first, and nobody else's meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import SimWorld, host, vm
from tests.unit.engine.test_new_seats import DISK, assert_sound, change, killed
from vgpumgr.model.errors import Conflict, NoPlacement, VgpumgrError
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.rolling import Rolling
from vgpumgr.model.vm import GpuRequest, VmSpec

SMALL, WHOLE = (vm("a", each, disks=(DISK,)) for each in ("T4-4Q", "T4-16Q"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = one_gpu(tmp_path)
    yield made
    made.close()


def one_gpu(folder: Path) -> SimWorld:
    made = SimWorld(folder, host("T4", cpus=8, memory_mib=8192))
    made.engine.refresh()
    made.apply(SMALL)
    return made


def owners(world: SimWorld) -> dict[int, str]:
    """The allocation of each unit of the GPU."""
    with closing(sqlite3.connect(world._file)) as connection:
        return dict(connection.execute("SELECT slot, allocation_id FROM unit"))


def test_units_that_both_have_pass_to_the_new_part(world: SimWorld) -> None:
    change(world, WHOLE)
    [held] = world.ledger.allocations()
    assert owners(world) == dict.fromkeys(range(16), held.id)
    change(world, SMALL)
    [held] = world.ledger.allocations()
    assert owners(world) == dict.fromkeys(held.slots, held.id)
    assert_sound(world)


def test_nobody_gets_its_place_while_it_has_neither(world: SimWorld) -> None:
    """The process dies when its old part is gone and the new one is not there."""
    world.sim.inject("h1", ["refuse", "mdev_create", "ETIMEDOUT", "1"])
    for at in count(1):
        mortal = Mortal(world.ledger, at, after=True)
        with suppress(Killed):
            replace(world.engine, ledger=mortal).apply([WHOLE], restart=True)  # type: ignore[arg-type]
        world.restart()
        if world.facts().mdevs == () and world.ledger.operations(open_only=True):
            break
        for each in world.ledger.operations(open_only=True):
            world.engine.undo(each.id)
    with pytest.raises(NoPlacement):
        world.engine.apply([vm("b", "T4-4Q")])
    for each in world.ledger.operations(open_only=True):
        world.engine.undo(each.id)
    assert assert_sound(world).spec == SMALL


def test_a_refused_device_brings_its_own_parts_back(world: SimWorld) -> None:
    [before] = world.ledger.allocations()
    world.sim.inject("h1", ["refuse", "mdev_create", "EIO", "1"])
    _, outcome = world.engine.apply([WHOLE], restart=True)
    with pytest.raises(VgpumgrError):
        outcome.raise_for_failure()
    assert assert_sound(world).spec == SMALL
    assert world.ledger.allocations() == (before,)
    assert owners(world) == dict.fromkeys(before.slots, before.id)


def test_one_that_is_off_needs_no_stop(world: SimWorld) -> None:
    world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()
    world.engine.apply([WHOLE])[1].raise_for_failure()
    assert_sound(world)
    world.engine.start(["a"]).raise_for_failure()
    assert assert_sound(world).spec == WHOLE


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_change_killed_anywhere_is_finished_or_undone(tmp_path: Path, after: bool) -> None:
    for at in count(1):
        (tmp_path / str(at)).mkdir()
        made = one_gpu(tmp_path / str(at))
        died = killed(made, WHOLE, at, after=after)
        assert assert_sound(made).spec in ((SMALL, WHOLE) if at % 2 else (WHOLE,))
        made.close()
        if not died:
            break
    assert at > 5


@pytest.fixture
def full(tmp_path: Path) -> Iterator[SimWorld]:
    """A GPU on whose VFs three VMs are, with no room for a fourth."""
    made = SimWorld(tmp_path, host("L40S"))
    made.engine.refresh()
    made.cut(GpuLayout(vfs=VFS_MAX))
    made.apply(*three())
    yield made
    made.close()


def three(limited: bool | None = None) -> list[VmSpec]:
    part = GpuRequest(profile="L40S-16Q", frame_rate_limiter=limited)
    return [vm(name, gpus=(part,)) for name in ("a", "b", "c")]


def test_vms_of_one_full_gpu_change_one_after_the_other(full: SimWorld) -> None:
    other = three(limited=False)
    with pytest.raises(NoPlacement, match="b and 1 more cannot be placed") as caught:
        full.engine.apply(other, restart=True)
    assert caught.value.next.startswith("vgpumgr apply -f FILE --restart --at-once 1")
    one = Rolling(group="", at_once=1)
    planned, outcome = full.engine.apply(
        other, restart=True, rolling={each.name: one for each in other}
    )
    outcome.raise_for_failure()
    assert [each.releases_first for each in planned.actions] == [True, True, True]
    assert [each.spec for each in full.ledger.vms()] == other
    held, gpu = full.ledger.allocations(), full.ledger.gpus()[0]
    assert len(held) == 3 and gpu.state is GpuState.HEALTHY
    assert {each.address for each in full.gpu().vfs if each.vendor and each.vendor.type_id} == {
        each.device for each in held
    }
    assert not full.ledger.operations(open_only=True)


def test_without_leave_to_stop_nothing_is_released(full: SimWorld) -> None:
    with pytest.raises(Conflict, match="the change needs a stop of a"):
        full.engine.apply(three(limited=False)[:1])
    assert [each.spec for each in full.ledger.vms()] == three()
