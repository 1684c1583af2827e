"""Every board, every vGPU type: the maximum is made, one more refused, all taken back."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from vgpumgr import catalog
from vgpumgr.catalog import Board, VgpuType
from vgpumgr.sim.boards.pci_board import pci_board
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu

BOARDS = [each for each in catalog.boards() if each.types]


def gpu_of(board: Board) -> NvidiaGpu:
    return NvidiaGpu(pci_board(board.key), "0000:41:00.0", seed=5, durable={})


def state(gpu: NvidiaGpu) -> object:
    """All that another vGPU could run into."""
    grid = gpu.mig.grid
    instances = [] if grid is None else [(each.id, each.start) for each in grid.instances.values()]
    return gpu.creatable(), instances, gpu.vgpus, gpu.sharing.mixed, gpu.mig.enabled


def make_as_many_as_go(gpu: NvidiaGpu, wanted: VgpuType) -> list[str]:
    assert wanted.id is not None
    made = [f"vf{number}" for number in range(gpu.remaining(wanted.id))]
    for each in made:
        gpu.create(each, wanted.id)
    with pytest.raises(OSError) as refused:
        gpu.create("one more", wanted.id)
    assert refused.value.errno == errno.EIO
    assert wanted not in gpu.creatable()
    return made


def take_back(gpu: NvidiaGpu, made: list[str]) -> None:
    for each in made:
        gpu.destroy(each)


def time_sliced(board: Board) -> Iterator[VgpuType]:
    return (each for each in board.types if each.id is not None and not each.mig)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_time_sliced_types_go_to_their_maximum(board: Board) -> None:
    """behaviour §6.4: the count reaches max_gpu, then INSUFFICIENT_RESOURCES."""
    gpu = gpu_of(board)
    before = state(gpu)
    for wanted in time_sliced(board):
        made = make_as_many_as_go(gpu, wanted)
        assert len(made) == wanted.max_gpu, wanted.name
        assert gpu.log[-2].endswith("0x1a")
        take_back(gpu, made)
        assert state(gpu) == before


@pytest.mark.parametrize(
    "board", [each for each in BOARDS if each.mixed_size], ids=lambda board: board.key
)
def test_mixed_size_types_go_as_far_as_there_are_ids(board: Board) -> None:
    """behaviour §7: the placement ids are the maximum, given out lowest first."""
    gpu = gpu_of(board)
    gpu.set_mixed_size(True)
    before = state(gpu)
    for wanted in time_sliced(board):
        made = make_as_many_as_go(gpu, wanted)
        placed = [each.placement_id for each in gpu.vgpus]
        assert tuple(placed) == catalog.mixed_ids(board, wanted), wanted.name
        take_back(gpu, made)
        assert state(gpu) == before


@pytest.mark.parametrize(
    "board", [each for each in BOARDS if catalog.mig(each)], ids=lambda board: board.key
)
def test_mig_backed_types_go_to_their_maximum(board: Board) -> None:
    """behaviour §6.7: Max Instances is the maximum per GPU instance times the instances."""
    gpu = gpu_of(board)
    gpu.set_mig_mode(True)
    grid = gpu.grid()
    before = state(gpu)
    for wanted in (each for each in board.types if each.mig and each.id is not None):
        assert wanted not in gpu.creatable()
        assert wanted.mig_id is not None
        while grid.remaining(wanted.mig_id):
            grid.create(wanted.mig_id)
        made = make_as_many_as_go(gpu, wanted)
        assert len(made) == wanted.max_gpu, wanted.name
        take_back(gpu, made)
        for instance_id in list(grid.instances):
            gpu.destroy_instance(instance_id)
        assert state(gpu) == before
