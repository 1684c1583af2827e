"""Whatever is made and taken back in any order: nothing overlaps, and no list lies."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.unit.sim.nvidia_gpu import gpu_of, mig_gpu
from vgpumgr import catalog
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu
from vgpumgr.sim.nvidia.rm_status import RmRefusal
from vgpumgr.sim.nvidia.vgpus import Vgpu

STEPS = 120


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("board", ["A40", "A100-PCIE-80GB", "L40S", "H200-SXM5-141GB"])
def test_time_sliced(board: str, mixed: bool, seed: int) -> None:
    gpu, chance = gpu_of(board, seed=seed), Random(seed)
    gpu.set_mixed_size(mixed)
    for step in range(STEPS):
        make_or_take_back(gpu, chance, f"vf{step}")
        check_vgpus(gpu)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("board", ["A30", "A100-PCIE-40GB", "H100-SXM5-80GB", "RTX-PRO-6000-BSE"])
def test_mig(board: str, seed: int) -> None:
    gpu, chance = mig_gpu(board, seed), Random(seed)
    for step in range(STEPS):
        if chance.random() < 0.4:
            make_or_destroy_instance(gpu, chance)
        else:
            make_or_take_back(gpu, chance, f"vf{step}")
        check_instances(gpu)
        check_vgpus(gpu)


def make_or_take_back(gpu: NvidiaGpu, chance: Random, carrier: str) -> None:
    if gpu.vgpus and chance.random() < 0.35:
        gpu.destroy(chance.choice(gpu.vgpus).carrier)
        return
    wanted = chance.choice([*gpu.types(), *gpu.creatable()])
    assert wanted.id is not None
    allowed = wanted in gpu.creatable()
    assert bool(gpu.remaining(wanted.id)) is allowed
    try:
        gpu.create(carrier, wanted.id)
    except OSError as refused:
        assert refused.errno == errno.EIO
        assert not allowed
    else:
        assert allowed


def make_or_destroy_instance(gpu: NvidiaGpu, chance: Random) -> None:
    grid = gpu.grid()
    if grid.instances and chance.random() < 0.4:
        number = chance.choice(list(grid.instances))
        busy = any(each.instance_id == number for each in gpu.vgpus)
        try:
            gpu.destroy_instance(number)
        except RmRefusal:
            assert busy
        else:
            assert not busy
        return
    wanted = chance.choice(grid.board.profiles)
    left = grid.remaining(wanted.id)
    try:
        grid.create(wanted.id)
    except RmRefusal:
        assert not left
    else:
        assert grid.remaining(wanted.id) == left - 1


def check_instances(gpu: NvidiaGpu) -> None:
    grid = gpu.grid()
    there = list(grid.instances.values())
    slots = [each.start + slot for each in there for slot in range(each.profile.size)]
    assert len(set(slots)) == len(slots)
    assert set(slots) <= set(range(grid.board.grid))
    assert sum(each.profile.gpu_slices for each in there) <= grid.board.gpu_slices
    assert sum(each.profile.media for each in there) <= 1


def check_vgpus(gpu: NvidiaGpu) -> None:
    spans = [span(gpu, each) for each in gpu.vgpus if each.placement_id is not None]
    for index, (where, start, end) in enumerate(spans):
        for other, other_start, other_end in spans[:index]:
            assert where != other or end <= other_start or start >= other_end


def span(gpu: NvidiaGpu, vgpu: Vgpu) -> tuple[int | None, int, int]:
    assert vgpu.placement_id is not None
    size = catalog.placement_size(gpu.model, vgpu.type)
    return vgpu.instance_id, vgpu.placement_id, vgpu.placement_id + size
