"""What vgpumgr believes of real GPUs, held against a machine that has some. Nothing is changed.

``make hw-test`` on a host with GPUs; as root more can be read.
"""

from __future__ import annotations

import pytest

from tests.hw.conftest import asked
from vgpumgr import catalog
from vgpumgr.hosts.facts.host_facts import assemble
from vgpumgr.model.gpu import GpuFacts, GpuHealth, MdevType, MigProfile
from vgpumgr.model.host import HostFacts

pytestmark = [pytest.mark.hw]


def test_a_probe_reads_everything_and_changes_nothing(facts: HostFacts) -> None:
    assert not [part for part in facts.unknown if part.part.startswith("nvml")], facts.unknown
    assert assemble("here", asked("probe")).gpus == facts.gpus


def test_an_examination_reads_everything(nvidia: list[GpuFacts]) -> None:
    assert asked("examine")["unknown"] == []


def test_nvml_tells_who_each_gpu_is(nvidia: list[GpuFacts]) -> None:
    for gpu in nvidia:
        assert gpu.uuid is not None, gpu.device
        assert gpu.uuid.startswith("GPU-"), gpu.uuid
        assert gpu.memory_mib, gpu.device
        assert gpu.health is not GpuHealth.LOST, gpu.health_detail


def test_the_catalogue_knows_the_board_and_its_memory(nvidia: list[GpuFacts]) -> None:
    """NVML's total leaves out what the driver keeps for itself: at most a tenth."""
    for gpu in nvidia:
        board = catalog.board(gpu.model)
        assert board is not None, f"{gpu.vendor_device} is not in the catalogue"
        assert gpu.memory_mib is not None
        assert 0.9 * board.memory_gib * 1024 <= gpu.memory_mib <= 1.02 * board.memory_gib * 1024


def test_sriov_is_as_large_as_the_catalogue_says(nvidia: list[GpuFacts]) -> None:
    for gpu in nvidia:
        board = catalog.board(gpu.model)
        assert board is not None
        if gpu.sriov_total and board.sriov_vfs_verified:
            assert gpu.sriov_total == board.sriov_vfs, gpu.model


def test_mig_profiles_are_those_of_the_catalogue(nvidia: list[GpuFacts]) -> None:
    """Only a GPU in MIG mode lists its profiles with their places."""
    listed = [(gpu, each) for gpu in nvidia if gpu.mig for each in gpu.mig.profiles]
    if not listed:
        pytest.skip("no GPU here is in MIG mode")
    for gpu, profile in listed:
        assert geometry(profile) == known(gpu, profile), f"{gpu.model} {profile.name}"


def geometry(profile: MigProfile) -> tuple[int, int, int, tuple[int, ...]]:
    return profile.profile_id, profile.gpu_slices, profile.size, profile.starts


def known(gpu: GpuFacts, profile: MigProfile) -> tuple[int, int, int, tuple[int, ...]]:
    board = catalog.board(gpu.model)
    assert board is not None
    found = catalog.gi_profile(board, profile.name)
    assert found is not None, f"{gpu.model} has {profile.name}, which the catalogue lacks"
    return found.id, found.gpu_slices, found.size, found.starts


def test_vgpu_types_are_those_of_the_catalogue(nvidia: list[GpuFacts]) -> None:
    """By the driver's number and name, on the physical function or on its VFs."""
    listed = [(gpu, each) for gpu in nvidia for each in mdev_types(gpu)]
    if not listed:
        pytest.skip("no GPU here offers vGPU types: it needs the vGPU host driver")
    for gpu, each in listed:
        board = catalog.board(gpu.model)
        assert board is not None
        names = {f"nvidia-{kind.id}": kind.name for kind in board.types}
        assert names.get(each.type_id, each.name) == each.name, f"{gpu.model} {each}"


def mdev_types(gpu: GpuFacts) -> set[MdevType]:
    return {*gpu.mdev_types, *(each for vf in gpu.vfs for each in vf.mdev_types)}
