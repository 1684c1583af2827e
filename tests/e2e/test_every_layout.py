"""Every part of a layout over every board: the most, refused one more, and back to before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host
from vgpumgr import catalog
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostFacts
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, Scheduler

BOARDS = catalog.boards()
MIG = [board for board in BOARDS if catalog.mig(board) is not None]
PLAIN = [board for board in catalog.sriov_boards() if board.driver]


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[list[SimWorld]]:
    made: list[SimWorld] = []
    yield made
    for world in made:
        world.close()


def world_of(board: str, worlds: list[SimWorld], folder: Path) -> tuple[SimWorld, HostFacts]:
    worlds.append(SimWorld(folder, host(board)))
    return worlds[0], state(worlds[0])


def state(world: SimWorld) -> HostFacts:
    """All but what the host keeps of its layouts."""
    return replace(world.facts(), claims=())


def refused(world: SimWorld, layout: GpuLayout) -> str:
    """The layout is refused, and nothing changes; the error's text."""
    before = world.facts()
    with pytest.raises(Conflict) as caught:
        world.cut(layout)
    assert world.facts() == before
    return f"{caught.value.message} {caught.value.why}"


def gpu(world: SimWorld) -> GpuFacts:
    return world.gpu()


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_vfs(board: catalog.Board, worlds: list[SimWorld], tmp_path: Path) -> None:
    world, before = world_of(board.key, worlds, tmp_path)
    if board.host_mode != "sriov-vf":
        refused(world, GpuLayout(vfs=VFS_MAX))
        return
    total = gpu(world).sriov_total
    world.cut(GpuLayout(vfs=VFS_MAX))
    assert len(gpu(world).vfs) == total
    assert str(total) in refused(world, GpuLayout(vfs=total + 1))
    world.cut(GpuLayout(vfs=0))
    assert state(world) == before


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_mixed_size_mode_and_scheduler(
    board: catalog.Board, worlds: list[SimWorld], tmp_path: Path
) -> None:
    world, before = world_of(board.key, worlds, tmp_path)
    if not board.mixed_size:
        refused(world, GpuLayout(vfs=VFS_MAX, mixed_size=True))
        return
    refused(world, GpuLayout(mixed_size=True, vfs=0))
    world.cut(GpuLayout(vfs=VFS_MAX, mixed_size=True, scheduler=Scheduler.EQUAL_SHARE))
    assert (gpu(world).mixed_size, gpu(world).scheduler) == (True, "equal-share")
    refused(world, GpuLayout(scheduler=Scheduler.FIXED_SHARE))
    world.cut(GpuLayout(mixed_size=False, scheduler=Scheduler.FIXED_SHARE))
    assert (gpu(world).mixed_size, gpu(world).scheduler) == (False, "fixed-share")
    world.cut(GpuLayout(vfs=0, scheduler=Scheduler.BEST_EFFORT))
    assert state(world) == before


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_mig_mode(board: catalog.Board, worlds: list[SimWorld], tmp_path: Path) -> None:
    world, before = world_of(board.key, worlds, tmp_path)
    if catalog.mig(board) is None:
        refused(world, GpuLayout(mig=True))
        return
    world.cut(GpuLayout(mig=True))
    found = gpu(world).mig
    assert found is not None
    assert (found.enabled, found.pending, found.instances) == (True, True, ())
    world.cut(GpuLayout(mig=False))
    assert state(world) == before


@pytest.mark.parametrize("board", MIG, ids=lambda board: board.key)
def test_gpu_instances(board: catalog.Board, worlds: list[SimWorld], tmp_path: Path) -> None:
    world, before = world_of(board.key, worlds, tmp_path)
    mig = catalog.mig(board)
    assert mig is not None
    for profile in mig.profiles:
        most = (InstanceGoal(profile=profile.name),) * profile.max_instances
        world.cut(GpuLayout(mig=True, instances=most))
        found = gpu(world).mig
        assert found is not None
        made = [each.profile_id for each in found.instances or ()]
        assert made == [profile.id] * profile.max_instances
        more = refused(world, GpuLayout(instances=(*most, InstanceGoal(profile=profile.name))))
        assert profile.name in more
    world.cut(GpuLayout(mig=False, instances=()))
    assert state(world) == before


@pytest.mark.parametrize("board", PLAIN, ids=lambda board: board.key)
def test_vfs_of_plain_boards(
    board: catalog.SriovBoard, worlds: list[SimWorld], tmp_path: Path
) -> None:
    world, before = world_of(board.key, worlds, tmp_path)
    total = gpu(world).sriov_total
    if not board.numvfs_writable:
        assert "module option" in refused(world, GpuLayout(vfs=0))
        refused(world, GpuLayout(vfs=total + 1))
        return
    world.cut(GpuLayout(vfs=total))
    assert len(gpu(world).vfs) == total
    assert str(total) in refused(world, GpuLayout(vfs=total + 1))
    world.cut(GpuLayout(vfs=0))
    assert state(world) == before
