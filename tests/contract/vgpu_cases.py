"""NVIDIA vGPUs as the driver shows them: their files (§3, §5), and what an mdev's parent counts."""

from __future__ import annotations

import re

from tests.contract.bench import Cases, claim, new_uuid, refused
from tests.contract.mdev_bench import PARENTS, create_file, remove_file
from tests.contract.vgpus import MdevVgpuBench, VfMdevBench, Vgpu, VgpuBench

DESCRIPTION = re.compile(
    r"num_heads=\d, frl_config=\d+, framebuffer=\d+M, max_resolution=\d+x\d+, max_instance=\d+\n"
)

CASES = Cases[VgpuBench]()
MDEV_CASES = Cases[MdevVgpuBench]()
# For mdevs on the PF: their parent is the GPU itself.
PF_CASES = Cases[MdevVgpuBench]()
VF_CASES = Cases[VfMdevBench]()
# For hosts where the plugin outlives its VM for longer than the driver waits (5 s).
VF_PLUGIN_CASES = Cases[VgpuBench]()
MDEV_PLUGIN_CASES = Cases[MdevVgpuBench]()
VF_REBOOT_CASES = Cases[VfMdevBench]()


def params(vgpu: Vgpu) -> str:
    return f"{vgpu.files}/vgpu_params"


def text(bench: MdevVgpuBench, parent: str, type_id: int, name: str) -> str:
    """A file of an mdev type."""
    return bench.machine.read(f"{PARENTS}/{parent}/mdev_supported_types/nvidia-{type_id}/{name}")


def available(bench: MdevVgpuBench, type_id: int) -> list[int]:
    return [
        int(text(bench, each, type_id, "available_instances")) for each in bench.carriers.parents
    ]


# -- the files of a vGPU


@CASES.case("3.6")
def frame_buffer_is_taken_when_the_vm_starts_and_not_before(bench: VgpuBench) -> None:
    before = bench.nvml.used_mib(bench.gpu)
    with bench.made(bench.small) as (vgpu,):
        assert bench.nvml.used_mib(bench.gpu) == before
        with bench.running("holder", vgpu.hostdev):
            assert bench.nvml.used_mib(bench.gpu) > before
    assert bench.nvml.used_mib(bench.gpu) == before


@CASES.case("3.8")
def parameters_are_at_most_1024_bytes(bench: VgpuBench) -> None:
    with bench.made(bench.small) as (vgpu,):
        with refused("E2BIG"):
            bench.machine.write(params(vgpu), "frame_rate_limiter=0," * 49)
        assert bench.machine.read(params(vgpu)).strip() == ""


@CASES.case("3.9")
def parameters_do_not_change_while_a_vm_runs(bench: VgpuBench) -> None:
    with (
        bench.made(bench.small) as (vgpu,),
        bench.running("holder", vgpu.hostdev),
        refused("EPERM"),
    ):
        bench.machine.write(params(vgpu), "frame_rate_limiter=0")


@CASES.case("3.10")
def a_space_clears_the_parameters(bench: VgpuBench) -> None:
    with bench.made(bench.small) as (vgpu,):
        bench.machine.write(params(vgpu), "frame_rate_limiter=0")
        assert "frame_rate_limiter=0" in bench.machine.read(params(vgpu))
        bench.machine.write(params(vgpu), " ")
        assert bench.machine.read(params(vgpu)).strip() == ""


@MDEV_CASES.case("3.7")
def a_vm_is_named_while_it_runs(bench: MdevVgpuBench) -> None:
    with bench.made(bench.small) as (vgpu,):
        assert bench.machine.read(f"{vgpu.files}/vm_name") == "\n"
        with bench.running("holder", vgpu.hostdev):
            assert bench.machine.read(f"{vgpu.files}/vm_name").strip()
        assert bench.machine.read(f"{vgpu.files}/vm_name") == "\n"


@MDEV_CASES.case("3.12")
def an_mdev_that_a_vm_has_open_is_not_removed(bench: MdevVgpuBench) -> None:
    with bench.made(bench.small) as (vgpu,), bench.running("holder", vgpu.hostdev):
        with refused("EPERM"):
            bench.machine.write(remove_file(vgpu.carrier), "1")
        assert bench.machine.exists(vgpu.files)


@VF_PLUGIN_CASES.case("5.10")
def a_vgpu_is_not_destroyed_while_the_plugin_of_its_vm_lives(bench: VgpuBench) -> None:
    with bench.made(bench.small) as (vgpu,):
        with bench.running("holder", vgpu.hostdev):
            pass
        with refused("EBUSY"):
            bench.carriers.drop(vgpu)


@MDEV_PLUGIN_CASES.case("3.13")
def an_mdev_is_not_removed_while_the_plugin_of_its_vm_lives(bench: MdevVgpuBench) -> None:
    with bench.made(bench.small) as (vgpu,):
        with bench.running("holder", vgpu.hostdev):
            pass
        with refused("EBUSY"):
            bench.carriers.drop(vgpu)


# -- types of a parent


@MDEV_CASES.case("3.1")
def a_type_is_described_in_one_line(bench: MdevVgpuBench) -> None:
    for parent in bench.carriers.parents:
        assert text(bench, parent, bench.small, "device_api") == "vfio-pci\n"
        assert DESCRIPTION.fullmatch(text(bench, parent, bench.small, "description"))
        assert text(bench, parent, bench.small, "name").startswith(("GRID ", "NVIDIA "))


@PF_CASES.case("3.2")
def types_of_one_size_count_down_together_and_all_others_read_0(bench: MdevVgpuBench) -> None:
    before = available(bench, bench.small)
    assert available(bench, bench.large) != [0]
    with bench.made(bench.small):
        left = [each - 1 for each in before]
        assert available(bench, bench.small) == available(bench, bench.sibling) == left
        assert available(bench, bench.large) == [0]
    assert available(bench, bench.small) == before


@VF_CASES.case("3.3")
def a_vf_reads_1_while_it_is_free_and_the_type_fits(bench: VfMdevBench) -> None:
    assert set(available(bench, bench.large)) == {1}
    with bench.made(bench.small) as (vgpu,):
        taken = bench.carriers.parents.index(bench.carriers.used[vgpu.carrier])
        free = [int(number != taken) for number in range(len(bench.carriers.parents))]
        assert available(bench, bench.small) == available(bench, bench.sibling) == free
        assert set(available(bench, bench.large)) == {0}
    assert set(available(bench, bench.large)) == {1}


@VF_CASES.case("6.5")
def a_vf_carries_one_mdev(bench: VfMdevBench) -> None:
    with bench.made(bench.small) as (vgpu,):
        vf = bench.carriers.used[vgpu.carrier]
        for type_id in (bench.small, bench.sibling):
            with refused("EIO"):
                bench.machine.write(create_file(vf, f"nvidia-{type_id}"), new_uuid())


@MDEV_CASES.case("3.4")
def another_size_is_refused_with_eio(bench: MdevVgpuBench) -> None:
    with bench.made(bench.small), refused("EIO"):
        bench.carriers.make(bench.large)


@VF_REBOOT_CASES.case("3.15", "3.16")
def an_mdev_on_a_vf_comes_back_once_the_vfs_are_on(bench: VfMdevBench) -> None:
    device, parent = new_uuid(), bench.carriers.vfs[0]
    kind = f"nvidia-{bench.small}"
    bench.call("mdev_create", parent=parent, type=kind, uuid=device, claim=claim())
    bench.may_suffer.reboot()
    failed = bench.call("restore")["failed"]
    assert isinstance(failed, list)
    assert [each["unit"] for each in failed] == [f"mdev-{device}"]
    bench.call("vfs_set", gpu=bench.gpu, count=len(bench.carriers.vfs))
    assert bench.call("restore") == {"restored": [f"mdev-{device}"], "failed": []}
    seen = bench.call("mdev_look", uuid=device)
    assert (seen["exists"], seen["parent"], seen["type"]) == (True, parent, kind)
