"""Mixed-size mode and where vGPUs lie in it (§7), and what VFs do to it (§4)."""

from __future__ import annotations

import pytest

from tests.contract.bench import PCI, Cases, refused
from tests.contract.mixed_size_bench import MixedSizeBench
from tests.contract.vgpus import VgpuBench
from vgpumgr.model.errors import HostRefused, InUse, NotFound

NO_GPU = "0000:ff:1f.0"

CASES = Cases[MixedSizeBench]()
FAULT_CASES = Cases[MixedSizeBench]()
REBOOT_CASES = Cases[MixedSizeBench]()
# For vGPUs that are VFs: a place is written to a file of their own.
VF_PLACE_CASES = Cases[MixedSizeBench]()
# For vGPUs that are mdevs: a place is a parameter.
MDEV_PLACE_CASES = Cases[MixedSizeBench]()
# For boards whose places are the same in both modes (Blackwell).
SAME_PLACES_CASES = Cases[MixedSizeBench]()
# For boards without the mode.
WITHOUT_CASES = Cases[VgpuBench]()


# -- the mode


@CASES.case("7.1")
def sizes_mix_in_the_mode_and_only_there(bench: MixedSizeBench) -> None:
    with bench.mixed(), bench.made(bench.small, bench.large, bench.small):
        pass
    with bench.made(bench.small), refused("EIO"):
        bench.carriers.make(bench.large)


@CASES.case("7.2")
def the_mode_does_not_change_under_a_vgpu(bench: MixedSizeBench) -> None:
    for before in (False, True):
        bench.set_mode(before)
        with bench.made(bench.small) as (vgpu,):
            assert bench.nvml.set_mixed_size(bench.gpu, not before) == "IN_USE"
            with pytest.raises(InUse) as caught:
                bench.set_mode(not before)
            assert vgpu.carrier in caught.value.why
            assert bench.enabled() is before
    bench.set_mode(False)


@FAULT_CASES.case("7.3")
def the_mode_does_not_change_while_a_program_holds_the_gpu(bench: MixedSizeBench) -> None:
    with bench.may_suffer.client(bench.gpu, "dcgm"):
        assert bench.nvml.set_mixed_size(bench.gpu, True) == "IN_USE"
        with pytest.raises(InUse) as caught:
            bench.set_mode(True)
        assert "dcgm" in caught.value.why
    assert bench.enabled() is False


@CASES.case("7.4")
def the_mode_set_before_the_vfs_is_lost(bench: MixedSizeBench) -> None:
    bench.set_vfs(False)
    with pytest.raises(HostRefused, match="lost"):
        bench.set_mode(True)
    assert bench.nvml.set_mixed_size(bench.gpu, True) == "SUCCESS"
    assert bench.enabled() is True
    bench.set_vfs(True)
    assert bench.enabled() is False


@CASES.case("4.13", "7.7")
def turning_vfs_off_and_on_loses_the_mode(bench: MixedSizeBench) -> None:
    bench.set_mode(True)
    bench.set_vfs(False)
    assert bench.enabled() is False
    bench.set_vfs(True)
    assert bench.enabled() is False


@REBOOT_CASES.case("7.5")
def a_boot_loses_the_mode(bench: MixedSizeBench) -> None:
    bench.set_mode(True)
    bench.may_suffer.reboot()
    assert bench.enabled() is False


@REBOOT_CASES.case()
def the_mode_of_a_layout_comes_back_after_the_vfs(bench: MixedSizeBench) -> None:
    layout = bench.keep(bench.gpu, vfs=bench.total, mixed_size=True)
    bench.may_suffer.reboot()
    assert bench.call("restore") == {"restored": [layout], "failed": []}
    assert (bench.enabled(), len(bench.facts(bench.gpu).vfs)) == (True, bench.total)


@CASES.case("7.6")
def a_reset_loses_the_mode(bench: MixedSizeBench) -> None:
    bench.set_vfs(False)
    bench.nvml.set_mixed_size(bench.gpu, True)
    assert bench.machine.run("nvidia-smi", "--gpu-reset", "-i", bench.gpu)[0] == 0
    assert bench.enabled() is False
    bench.set_vfs(True)


@CASES.case("7.6")
def a_reload_of_the_driver_loses_the_mode(bench: MixedSizeBench) -> None:
    bench.set_vfs(False)
    bench.nvml.set_mixed_size(bench.gpu, True)
    for doing in ("unbind", "bind"):
        bench.machine.write(f"{PCI}/drivers/nvidia/{doing}", bench.gpu)
    assert bench.enabled() is False
    bench.set_vfs(True)


@CASES.case("7.8")
def mixed_size_and_fixed_share_exclude_each_other(bench: MixedSizeBench) -> None:
    with bench.mixed():
        bench.call("scheduler_set", gpu=bench.gpu, policy="equal-share")
        with pytest.raises(HostRefused, match="mixed-size"):
            bench.call("scheduler_set", gpu=bench.gpu, policy="fixed-share")
    bench.call("scheduler_set", gpu=bench.gpu, policy="fixed-share")
    assert bench.nvml.set_mixed_size(bench.gpu, True) == "NOT_SUPPORTED"
    with pytest.raises(HostRefused):
        bench.set_mode(True)
    bench.call("scheduler_set", gpu=bench.gpu, policy="best-effort")


@WITHOUT_CASES.case("7.16")
def a_board_without_the_mode_says_so(bench: VgpuBench) -> None:
    assert bench.facts(bench.gpu).mixed_size is None
    assert bench.nvml.set_mixed_size(bench.gpu, True) == "NOT_SUPPORTED"
    with pytest.raises(HostRefused, match="no mixed-size mode"):
        bench.call("mixed_size_set", gpu=bench.gpu, enabled=True)


@CASES.case("7.17")
def an_unknown_gpu_is_not_found(bench: MixedSizeBench) -> None:
    assert bench.nvml.set_mixed_size(NO_GPU, True) == "NOT_FOUND"
    with pytest.raises(NotFound):
        bench.call("mixed_size_set", gpu=NO_GPU, enabled=True)


# -- places


@CASES.case("7.9")
def the_first_free_place_is_taken(bench: MixedSizeBench) -> None:
    with bench.mixed():
        for each in (bench.small, bench.large):
            with bench.made(*[each] * len(bench.places[each])) as vgpus:
                assert tuple(bench.place(vgpu) for vgpu in vgpus) == bench.places[each]
                with refused("EIO"):
                    bench.carriers.make(each)
        with bench.made(bench.small, bench.large) as (small, large):
            taken = bench.place(small)
            assert taken == bench.places[bench.small][0]
            assert bench.place(large) in bench.places[bench.large]
            assert bench.place(large) != taken


@CASES.case("7.11")
def the_smallest_type_fits_as_often_as_it_has_places(bench: MixedSizeBench) -> None:
    with bench.mixed(), bench.made(*[bench.smallest] * bench.most_smallest) as vgpus:
        assert len({bench.place(each) for each in vgpus}) == bench.most_smallest
        with refused("EIO"):
            bench.carriers.make(bench.smallest)


@CASES.case("7.13", "3.14")
def places_of_one_size_are_told_or_not(bench: MixedSizeBench) -> None:
    with bench.made(*[bench.small] * 3) as vgpus:
        step = bench.same_size_step
        wanted = [None] * 3 if step is None else [0, step, 2 * step]
        assert [bench.place(each) for each in vgpus] == wanted


@SAME_PLACES_CASES.case("7.12")
def places_are_the_same_in_both_modes(bench: MixedSizeBench) -> None:
    for each in (bench.small, bench.large):
        with bench.made(*[each] * len(bench.places[each])) as vgpus:
            assert tuple(bench.place(vgpu) for vgpu in vgpus) == bench.places[each]


@VF_PLACE_CASES.case("7.10")
def a_place_is_written_and_checked(bench: MixedSizeBench) -> None:
    with bench.mixed(), bench.made(bench.small, bench.small) as (one, two):
        file = f"{two.files}/placement_id"
        ids = bench.places[bench.small]
        for text, name in ((str(ids[0] + 1), "EINVAL"), ("here", "EINVAL"), (str(ids[0]), "EBUSY")):
            with refused(name):
                bench.machine.write(file, text)
        bench.machine.write(file, str(ids[-1]))
        assert (bench.place(one), bench.place(two)) == (ids[0], ids[-1])


@MDEV_PLACE_CASES.case("7.14")
def a_fixed_place_is_checked_when_the_vm_starts(bench: MixedSizeBench) -> None:
    with bench.mixed(), bench.made(bench.small, bench.small) as (one, two):
        file = f"{two.files}/vgpu_params"
        ids = bench.places[bench.small]
        for place in (ids[0] + 1, ids[0]):
            bench.machine.write(file, f"vgpu-placement-id={place}")
            assert isinstance(bench.refused_start("placed", two.hostdev), HostRefused)
        bench.machine.write(file, f"vgpu-placement-id={ids[-1]}")
        with bench.running("placed", two.hostdev):
            assert (bench.place(one), bench.place(two)) == (ids[0], ids[-1])
