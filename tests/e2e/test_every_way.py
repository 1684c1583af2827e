"""Every framework over every board: make the most, be refused one more, take all back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import NEW, OLD, SimWorld, host, vm
from vgpumgr import catalog
from vgpumgr.model.errors import NoPlacement
from vgpumgr.model.gpu import Framework
from vgpumgr.model.host import HostFacts, Versions
from vgpumgr.model.layout import VFS_MAX, GpuLayout

TIME_SLICED = [b for b in catalog.boards() if any(not t.mig and t.id for t in b.types)]
MIG = [b for b in catalog.boards() if catalog.mig(b) and any(t.mig for t in b.types)]
ON_VFS = [board for board in TIME_SLICED if board.host_mode == "sriov-vf"]
ON_PF = [board for board in TIME_SLICED if board.host_mode == "mdev-on-pf"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path


def state(facts: HostFacts) -> HostFacts:
    """What must be the same before and after."""
    return replace(facts, boot_id="")


def fill_and_empty(world: SimWorld, profile: str, most: int, framework: Framework) -> None:
    """Make ``most``, be refused one more, delete all: the host is as it was."""
    before = state(world.facts())
    names = [f"vm-{number}" for number in range(most)]
    world.apply(*(vm(name, profile) for name in names))
    held = world.ledger.allocations()
    assert {each.framework for each in held} == {framework}
    assert len({(each.gpu, slot) for each in held for slot in each.slots}) == sum(
        len(each.slots) for each in held
    )
    with pytest.raises(NoPlacement):
        world.apply(vm("one-more", profile))
    world.delete(*names)
    assert state(world.facts()) == before


def a_type_of(board: catalog.Board) -> catalog.VgpuType:
    """The type with the most instances up to eight; every type goes to its maximum on the
    driver's own level in tests/unit/sim/test_nvidia_types.py."""
    types = [t for t in board.types if not t.mig and t.id is not None]
    few = [t for t in types if t.max_gpu <= 8]
    return max(few or types, key=lambda t: t.max_gpu)


@pytest.mark.parametrize("board", ON_PF, ids=lambda board: board.key)
def test_time_sliced_on_the_gpu_itself(board: catalog.Board, folder: Path) -> None:
    world = SimWorld(folder, host(board.key, versions=NEW))
    vgpu_type = a_type_of(board)
    fill_and_empty(world, vgpu_type.profile, vgpu_type.max_gpu, Framework.MDEV)
    world.close()


@pytest.mark.parametrize(
    ("versions", "framework"),
    [(OLD, Framework.MDEV), (NEW, Framework.VFIO_VF)],
    ids=["6.1", "6.12"],
)
@pytest.mark.parametrize("board", ON_VFS, ids=lambda board: board.key)
def test_time_sliced_on_virtual_functions(
    board: catalog.Board, versions: Versions, framework: Framework, folder: Path
) -> None:
    world = SimWorld(folder, host(board.key, versions=versions))
    world.cut(GpuLayout(vfs=VFS_MAX))
    vfs = len(world.gpu().vfs)
    vgpu_type = a_type_of(board)
    fill_and_empty(world, vgpu_type.profile, min(vfs, vgpu_type.max_gpu), framework)
    world.close()


@pytest.mark.parametrize("board", MIG, ids=lambda board: board.key)
def test_every_mig_profile(board: catalog.Board, folder: Path) -> None:
    world = SimWorld(folder, host(board.key))
    world.cut(GpuLayout(mig=True, vfs=VFS_MAX))
    mig = catalog.mig(board)
    assert mig is not None
    for profile in mig.profiles:
        types = catalog.mig_types(board, profile.name)
        if types and types[0].id is not None and not profile.graphics:
            fill_and_empty(world, profile.name, types[0].max_gpu, Framework.VFIO_VF)
    world.close()


@pytest.mark.parametrize("board", [b for b in ON_VFS if b.mixed_size], ids=lambda board: board.key)
def test_mixed_sizes_up_to_the_placement_ids(board: catalog.Board, folder: Path) -> None:
    world = SimWorld(folder, host(board.key))
    world.cut(GpuLayout(vfs=VFS_MAX, mixed_size=True))
    vfs = len(world.gpu().vfs)
    vgpu_type = a_type_of(board)
    ids = catalog.mixed_ids(board, vgpu_type)
    fill_and_empty(world, vgpu_type.profile, min(len(ids), vfs), Framework.VFIO_VF)
    world.close()


PLAIN = [board for board in catalog.sriov_boards() if board.driver]


@pytest.mark.parametrize("board", PLAIN, ids=lambda board: board.key)
def test_plain_virtual_functions(board: catalog.SriovBoard, folder: Path) -> None:
    counts = board.allowed_vf_counts or ((1, 2, 4) if board.numvfs_writable else (1,))
    count = max(counts)
    boards = host(board.key)
    if not board.numvfs_writable:
        (only,) = boards.boards
        boards = replace(boards, boards=(replace(only, vfs=count),))
    world = SimWorld(folder, boards)
    if board.numvfs_writable:
        world.cut(GpuLayout(vfs=count))
    fill_and_empty(world, f"{board.key}-1of{count}", count, Framework.PCI_VF)
    world.close()


@pytest.mark.parametrize("board", catalog.boards(), ids=lambda board: board.key)
def test_whole_gpus(board: catalog.Board, folder: Path) -> None:
    world = SimWorld(folder, host(board.key, board.key))
    fill_and_empty(world, "passthrough", 2, Framework.PASSTHROUGH)
    world.close()
