"""Which vGPU the simulated resource manager takes, and where it lies."""

from __future__ import annotations

import errno

import pytest

from tests.unit.sim.nvidia_gpu import gpu_of, logged, make, mig_gpu, oserror, type_id

EIO, EPERM, EINVAL, EBUSY, ENODEV = (
    errno.EIO,
    errno.EPERM,
    errno.EINVAL,
    errno.EBUSY,
    errno.ENODEV,
)
NOT_SUPPORTED, INVALID_OPERATION, INSUFFICIENT_RESOURCES = 0x56, 0x38, 0x1A


def placed(gpu) -> list[int | None]:  # type: ignore[no-untyped-def]
    return [each.placement_id for each in gpu.vgpus]


def test_the_first_fixes_the_size() -> None:
    """behaviour §6.3: another size is NOT_SUPPORTED, 0x56 in the log."""
    gpu = gpu_of("A40")
    make(gpu, "A40-8Q")
    with logged(gpu, NOT_SUPPORTED):
        make(gpu, "A40-4Q")
    assert {each.fb_mib for each in gpu.creatable()} == {8192}
    gpu.destroy("vf0")
    make(gpu, "A40-4Q")


def test_series_of_one_size_mix_from_r550_on() -> None:
    """behaviour §6.3: an A2 ran 4Q, 4C and 4A together."""
    gpu = gpu_of("A2")
    make(gpu, "A2-4Q", "A2-4C", "A2-4A")
    assert gpu.remaining(type_id(gpu, "A2-4Q")) == 1


def test_before_r550_only_the_very_type_is_taken() -> None:
    """behaviour §6.3: before the heterogeneous capability one exact type only."""
    gpu = gpu_of("A2", driver="535.161.05")
    make(gpu, "A2-4Q")
    with logged(gpu, NOT_SUPPORTED):
        make(gpu, "A2-4C")
    make(gpu, "A2-4Q")


def test_types_of_a_pf_count_down_together() -> None:
    """behaviour §3: after a 1Q the types of its size have one less, the others none (R535)."""
    gpu = gpu_of("T4", driver="535.161.05")
    make(gpu, "T4-1Q")
    assert gpu.remaining(type_id(gpu, "T4-1B")) == 15
    assert gpu.remaining(type_id(gpu, "T4-2Q")) == 0


def test_mig_backed_types_need_mig() -> None:
    """behaviour §6.2: INVALID_OPERATION with MIG off."""
    gpu = gpu_of("A100-PCIE-80GB")
    with logged(gpu, INVALID_OPERATION):
        make(gpu, "A100D-1-10C")


def test_mig_needs_an_instance_of_the_types_kind() -> None:
    """behaviour §6.1: INVALID_OPERATION for time-sliced types and without such an instance."""
    gpu = mig_gpu("A100-PCIE-80GB")
    assert not gpu.creatable()
    gpu.grid().create(14)
    with logged(gpu, INVALID_OPERATION):
        make(gpu, "A100D-1-10C")
    with logged(gpu, INVALID_OPERATION):
        make(gpu, "A100D-4C")
    assert [each.profile for each in gpu.creatable()] == ["A100D-2-20C"]


def test_the_lowest_instance_id_with_room_is_chosen() -> None:
    """behaviour §6.8."""
    gpu = mig_gpu("A100-PCIE-80GB")
    ids = sorted(gpu.grid().create(19).id for _ in range(3))
    make(gpu, "A100D-1-10C", "A100D-1-10C", "A100D-1-10C")
    assert [each.instance_id for each in gpu.vgpus] == ids
    assert placed(gpu) == [None] * 3
    with logged(gpu, INSUFFICIENT_RESOURCES):
        make(gpu, "A100D-1-10C")
    gpu.destroy("vf1")
    gpu.create("again", type_id(gpu, "A100D-1-10C"))
    assert gpu.vgpus[-1].instance_id == ids[1]


def test_vgpus_of_an_instance_are_of_one_size() -> None:
    """behaviour §6.7: Q and A mix, another size is refused with space left."""
    gpu = mig_gpu("RTX-PRO-6000-BSE")
    gpu.grid().create(47)
    prefix = "RTX Pro 6000 Blackwell DC-1"
    make(gpu, f"{prefix}-4Q", f"{prefix}-4A")
    assert placed(gpu) == [0, 4]
    with logged(gpu, NOT_SUPPORTED):
        make(gpu, f"{prefix}-2Q")
    gpu.grid().create(47)
    make(gpu, f"{prefix}-2Q")
    assert gpu.vgpus[0].instance_id != gpu.vgpus[2].instance_id
    assert placed(gpu) == [0, 4, 0]


def test_twelve_vgpus_fill_an_instance() -> None:
    """behaviour §6.6: 12 per GPU instance."""
    gpu = mig_gpu("RTX-PRO-6000-BSE")
    gpu.grid().create(47)
    make(gpu, *["RTX Pro 6000 Blackwell DC-1-2Q"] * 12)
    with logged(gpu, INSUFFICIENT_RESOURCES):
        make(gpu, "RTX Pro 6000 Blackwell DC-1-2Q")


def test_without_gfx_no_vgpu_on_rtx_pro() -> None:
    """behaviour §8: only +gfx instances host vGPUs."""
    gpu = mig_gpu("RTX-PRO-6000-BSE")
    gpu.grid().create(14)
    assert not gpu.creatable()


def test_mixed_sizes_lie_side_by_side() -> None:
    """behaviour §7: region 80, 8 GB at {0,12,…}, 16 GB at {0,24,40,64}; first creatable id."""
    gpu = gpu_of("A100-PCIE-80GB")
    gpu.set_mixed_size(True)
    make(gpu, "A100D-8C", "A100D-16C", "A100D-8C", "A100D-40C")
    assert placed(gpu) == [0, 24, 12, 40]
    with logged(gpu, INSUFFICIENT_RESOURCES):
        make(gpu, "A100D-16C")


def test_a_hole_is_reused_only_by_what_fits() -> None:
    """behaviour §7: ids are fixed per type."""
    gpu = gpu_of("A100-PCIE-80GB")
    gpu.set_mixed_size(True)
    make(gpu, *["A100D-20C"] * 4)
    gpu.destroy("vf1")
    assert gpu.remaining(type_id(gpu, "A100D-40C")) == 0
    assert gpu.remaining(type_id(gpu, "A100D-20C")) == 1
    assert gpu.remaining(type_id(gpu, "A100D-4C")) == 4


@pytest.mark.parametrize(
    ("board", "profile", "ids"),
    [("L40S", "L40S-12Q", [0, 12]), ("A40", "A40-12Q", [None, None])],
)
def test_ids_in_same_size_mode(board: str, profile: str, ids: list[int | None]) -> None:
    """behaviour §7: Ada and Hopper report id = j*size, Ampere none."""
    gpu = gpu_of(board)
    make(gpu, profile, profile)
    assert placed(gpu) == ids


def test_a_vgpu_can_be_placed_where_its_type_may_lie() -> None:
    """behaviour §7: EINVAL for no id of the type, EBUSY where another lies."""
    gpu = gpu_of("A100-PCIE-80GB")
    gpu.set_mixed_size(True)
    make(gpu, "A100D-16C", "A100D-16C")
    gpu.place("vf0", 64)
    assert placed(gpu) == [64, 24]
    with oserror(EINVAL):
        gpu.place("vf0", 16)
    with oserror(EBUSY):
        gpu.place("vf0", 24)
    with oserror(EPERM):
        gpu.place("nothing", 0)


def test_ampere_takes_no_place_in_same_size_mode() -> None:
    """behaviour §7: placement id Not Applicable."""
    gpu = gpu_of("A40")
    make(gpu, "A40-8Q")
    with oserror(EINVAL):
        gpu.place("vf0", 0)


def test_a_fixed_placement_counts_at_the_start_of_the_vm() -> None:
    """behaviour §7: an invalid or taken id makes the VM start fail, not the write."""
    gpu = gpu_of("A100-PCIE-80GB")
    gpu.set_mixed_size(True)
    make(gpu, "A100D-40C", "A100D-40C")
    first = gpu.vgpu("vf0")
    assert first is not None
    first.params["vgpu-placement-id"] = "40"
    with oserror(EBUSY):
        gpu.start_vm(["vf0"], "vm")
    first.params["vgpu-placement-id"] = "7"
    with oserror(EINVAL):
        gpu.start_vm(["vf0"], "vm")
    gpu.destroy("vf1")
    first.params["vgpu-placement-id"] = "40"
    gpu.start_vm(["vf0"], "vm")
    assert (first.vm, first.placement_id) == ("vm", 40)


def test_a_running_vgpu_is_not_destroyed() -> None:
    """behaviour §5: EPERM while a VM has it open; a second VM cannot have it."""
    gpu = gpu_of("A40")
    make(gpu, "A40-8Q")
    gpu.start_vm(["vf0"], "vm")
    with oserror(EPERM):
        gpu.destroy("vf0")
    with oserror(EBUSY):
        gpu.start_vm(["vf0"], "other")
    gpu.stop_vm(["vf0"])
    gpu.destroy("vf0")
    with oserror(EPERM):
        gpu.destroy("vf0")
    with oserror(ENODEV):
        gpu.start_vm(["vf0"], "vm")


def test_a_carrier_has_one_vgpu() -> None:
    """behaviour §6.5, §5: one per VF, EPERM; its list of creatable types is empty."""
    gpu = gpu_of("A40")
    make(gpu, "A40-8Q")
    with oserror(EPERM):
        gpu.create("vf0", type_id(gpu, "A40-8Q"))
    assert not gpu.creatable("vf0")
    assert gpu.creatable("vf1")


def test_a_type_the_board_lacks_is_refused() -> None:
    """behaviour §5: a refusal of the resource manager is EIO."""
    with oserror(EIO):
        gpu_of("A40").create("vf0", 4)
