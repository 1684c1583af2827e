"""MIG of the simulated GPU: the grid, GPU and compute instances, the mode."""

from __future__ import annotations

import pytest

from tests.unit.sim.nvidia_gpu import gpu_of, make, mig_gpu, oserror, refused
from vgpumgr import catalog
from vgpumgr.catalog import Board
from vgpumgr.sim.nvidia.rm_status import RmStatus

BOARDS = [each for each in catalog.boards() if catalog.mig(each)]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_every_profile_goes_to_its_maximum(board: Board, seed: int) -> None:
    """behaviour §8: one more is INSUFFICIENT_RESOURCES, ids are unique, all can be taken back."""
    grid = mig_gpu(board.key, seed).grid()
    for profile in grid.board.profiles:
        made = [grid.create(profile.id) for _ in range(profile.max_instances)]
        assert grid.remaining(profile.id) == 0
        with refused(RmStatus.INSUFFICIENT_RESOURCES):
            grid.create(profile.id)
        assert {each.start for each in made} <= set(profile.starts)
        assert len({each.start for each in made}) == len({each.id for each in made}) == len(made)
        for each in made:
            grid.destroy(each.id)
        assert not grid.instances


def starts(grid, *profile_ids: int) -> list[int]:  # type: ignore[no-untyped-def]
    return [grid.create(each).start for each in profile_ids]


def test_a_card_fills_its_slots_as_the_guide_shows() -> None:
    """behaviour §8: 1g at 6,4,5,0,1,2,3; 2g and 3g first at 4; ids 13,11,12,7,8,9,10."""
    grid = mig_gpu("A100-PCIE-40GB").grid()
    made = [grid.create(19) for _ in range(7)]
    assert [each.start for each in made] == [6, 4, 5, 0, 1, 2, 3]
    assert [each.id for each in made] == [13, 11, 12, 7, 8, 9, 10]
    assert starts(mig_gpu("A100-PCIE-40GB").grid(), 14, 14, 14) == [4, 0, 2]
    assert starts(mig_gpu("A100-PCIE-40GB").grid(), 9, 9) == [4, 0]
    assert starts(mig_gpu("A100-PCIE-40GB").grid(), 9, 19, 14, 19) == [4, 0, 2, 1]


def test_another_card_lacks_another_eighth() -> None:
    """catalogue, ids_1g_seen: 9,7,8,11,12,13,14 on an H100 PCIe; 10 does not exist there."""
    grid = mig_gpu("H100-PCIE-80GB", seed=1).grid()
    assert [grid.create(19).id for _ in range(7)] == [9, 7, 8, 11, 12, 13, 14]


def test_no_card_fills_lowest_first() -> None:
    """behaviour §8: the default choice is not lowest-first."""
    for seed in range(60):
        assert mig_gpu("H100-SXM5-80GB", seed).grid().create(19).start != 0
        assert mig_gpu("RTX-PRO-6000-BSE", seed).grid().create(47).start != 0


def test_small_ones_first_leave_no_room_for_a_large_one() -> None:
    """behaviour §8: cgi 19,19,14,9 fails at 9; what was made stays."""
    grid = mig_gpu("A100-PCIE-40GB").grid()
    starts(grid, 19, 19, 14)
    assert grid.remaining(9) == 0
    with refused(RmStatus.INSUFFICIENT_RESOURCES):
        grid.create(9)
    assert len(grid.instances) == 3


def test_an_explicit_place_is_taken_or_refused() -> None:
    """behaviour §8: explicit placement; taken is INSUFFICIENT_RESOURCES."""
    grid = mig_gpu("A100-PCIE-80GB").grid()
    assert grid.create(9, 0).id == 1
    assert grid.create(9, 4).id == 2
    with refused(RmStatus.INSUFFICIENT_RESOURCES):
        grid.create(19, 4)
    with refused(RmStatus.INVALID_ARGUMENT):
        grid.create(14, 1)
    with refused(RmStatus.NOT_SUPPORTED):
        grid.create(99)


def test_compute_slices_run_out_before_memory() -> None:
    """catalogue, slice_rule: seven compute slices; 4g + 3g use them all."""
    grid = mig_gpu("H100-SXM5-80GB").grid()
    grid.create(5)
    grid.create(9)
    assert all(grid.remaining(each.id) == 0 for each in grid.board.profiles)
    grid = mig_gpu("H100-SXM5-80GB").grid()
    starts(grid, 15, 15, 15, 15)
    assert grid.remaining(19) == 0


def test_media_extensions_go_to_one_instance() -> None:
    """behaviour §8: +me once per GPU; on A30 either 1g+me or 2g+me."""
    grid = mig_gpu("A30").grid()
    grid.create(21)
    assert grid.remaining(6) == 0
    with refused(RmStatus.INSUFFICIENT_RESOURCES):
        grid.create(6)
    grid.create(5)


def test_all_media_engines_leave_none_to_others() -> None:
    """behaviour §8: +me.all takes all engines, -me none."""
    grid = mig_gpu("RTX-PRO-6000-BSE").grid()
    grid.create(65)
    assert grid.remaining(14) == grid.remaining(47) == 0
    assert grid.remaining(67) == 3
    grid.create(67)
    grid = mig_gpu("RTX-PRO-6000-BSE").grid()
    grid.create(47)
    assert grid.remaining(65) == 0


def test_compute_instances_share_the_slices_of_theirs() -> None:
    """catalogue, ci_profiles: slices add up to the GPU instance's at most."""
    grid = mig_gpu("A100-PCIE-40GB").grid()
    inside = grid.create(9)
    assert [inside.create_compute(each).id for each in (1, 0)] == [0, 1]
    for each in (0, 1, 2):
        with refused(RmStatus.INSUFFICIENT_RESOURCES):
            inside.create_compute(each)
    with refused(RmStatus.NOT_SUPPORTED):
        inside.create_compute(4)
    inside.destroy_compute(0)
    assert [inside.create_compute(0).id for _ in range(2)] == [0, 2]
    with refused(RmStatus.NOT_FOUND):
        inside.destroy_compute(7)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
def test_every_compute_profile_goes_to_its_maximum(board: Board) -> None:
    grid = mig_gpu(board.key).grid()
    for profile in grid.board.profiles:
        inside = grid.create(profile.id)
        for ci in profile.compute:
            made = [inside.create_compute(ci.id).id for _ in range(ci.max_instances)]
            with refused(RmStatus.INSUFFICIENT_RESOURCES):
                inside.create_compute(ci.id)
            for each in made:
                inside.destroy_compute(each)
        grid.destroy(inside.id)


def test_an_instance_with_compute_instances_stays() -> None:
    """behaviour §8: destroy compute instances first, else IN_USE."""
    gpu = mig_gpu("A100-PCIE-40GB")
    inside = gpu.grid().create(19)
    inside.create_compute(0)
    with refused(RmStatus.IN_USE):
        gpu.destroy_instance(inside.id)
    inside.destroy_compute(0)
    gpu.destroy_instance(inside.id)
    with refused(RmStatus.NOT_FOUND):
        gpu.destroy_instance(inside.id)


def test_an_instance_with_a_vgpu_stays() -> None:
    """behaviour §8: a GPU instance with a live vGPU cannot be destroyed (IN_USE)."""
    gpu = mig_gpu("A100-PCIE-80GB")
    inside = gpu.grid().create(19)
    make(gpu, "A100D-1-10C")
    with refused(RmStatus.IN_USE):
        gpu.destroy_instance(inside.id)
    gpu.destroy("vf0")
    gpu.destroy_instance(inside.id)


def test_the_mode_is_refused_while_vfs_are_on() -> None:
    """behaviour §4: IN_USE, and nothing is pending then."""
    gpu = mig_gpu("H100-SXM5-80GB")
    gpu.vfs_on = True
    with refused(RmStatus.IN_USE):
        gpu.set_mig_mode(False)
    assert gpu.mig.enabled
    assert gpu.mig.pending
    gpu.vfs_on = False
    assert gpu.set_mig_mode(False) is None


def test_the_mode_is_refused_with_instances_left() -> None:
    """behaviour §8: instances go first."""
    gpu = mig_gpu("A30")
    gpu.grid().create(14)
    with refused(RmStatus.IN_USE):
        gpu.set_mig_mode(False)


@pytest.mark.parametrize(
    ("board", "status"), [("A30", RmStatus.RESET_REQUIRED), ("H200-SXM5-141GB", RmStatus.IN_USE)]
)
def test_clients_leave_the_mode_pending(board: str, status: RmStatus) -> None:
    """behaviour §8: pending while in use; a reset needs the clients gone, and makes it so."""
    gpu = gpu_of(board)
    gpu.clients.add("dcgm")
    assert gpu.set_mig_mode(True) is status
    assert (gpu.mig.enabled, gpu.mig.pending) == (False, True)
    with oserror(16):
        gpu.reset()
    gpu.clients.clear()
    gpu.reset()
    assert gpu.mig.enabled


def test_the_mode_lasts_and_the_instances_do_not() -> None:
    """behaviour §8: MIG mode survived a reboot; instances never do."""
    durable: dict[str, str] = {}
    gpu = gpu_of("A100-PCIE-40GB", durable=durable)
    gpu.set_mig_mode(True)
    gpu.grid().create(19)
    booted = gpu_of("A100-PCIE-40GB", durable=durable)
    assert booted.mig.enabled
    assert not booted.grid().instances


def test_a_rebound_driver_has_no_instances() -> None:
    """behaviour §4: sriov-manage destroys all GPU instances, the mode stays."""
    gpu = mig_gpu("A100-PCIE-40GB")
    gpu.grid().create(19)
    gpu.driver_rebound()
    assert not gpu.grid().instances


def test_a_reset_takes_the_instances() -> None:
    """behaviour §8: instances never survive a GPU reset."""
    gpu = mig_gpu("H100-SXM5-80GB")
    gpu.grid().create(19)
    gpu.reset()
    assert not gpu.grid().instances


def test_a_board_without_mig_says_so() -> None:
    gpu = gpu_of("A40")
    with refused(RmStatus.NOT_SUPPORTED):
        gpu.set_mig_mode(True)
    with refused(RmStatus.NOT_SUPPORTED):
        gpu.grid()
