"""``sriov-manage`` of NVIDIA's host driver, its texts and exit codes (behaviour §4)."""

from __future__ import annotations

import pytest

from tests.unit.sim.boards import (
    FIRST,
    NEW,
    OLD,
    ONE,
    boot,
    driver,
    read,
    refused,
    sriov_manage,
    to_vfio,
    virtual,
    with_vfs,
    write,
)
from vgpumgr.model.host import Versions
from vgpumgr.sim import injection
from vgpumgr.sim.machine.kernel import Kernel


def test_it_switches_all_vfs_and_repeats_itself_without_harm() -> None:
    """§4: -e is idempotent."""
    kernel = boot("A40")
    assert sriov_manage(kernel, "-e", FIRST) == (0, f"Enabling VFs on {FIRST}\n")
    assert sriov_manage(kernel, "-e", FIRST) == (0, f"GPU at {FIRST} already has VFs enabled.\n")
    assert len(virtual(kernel)) == 32
    assert {driver(kernel, each) for each in (FIRST, *virtual(kernel))} == {"nvidia"}
    assert kernel.nvidia[FIRST].vfs_on
    assert sriov_manage(kernel, "-d", FIRST) == (0, f"Disabling VFs on {FIRST}\n")
    assert sriov_manage(kernel, "-d", FIRST) == (0, f"GPU at {FIRST} already has VFs disabled.\n")
    assert (virtual(kernel), kernel.nvidia[FIRST].vfs_on) == ([], False)


def test_it_passes_over_what_has_no_vfs_for_vgpus() -> None:
    """§1: T4 and M10 make vGPUs on the PF; the script ends with 0 and says nothing."""
    kernel = boot("T4", "M10")
    for gpu in kernel.gpus:
        assert sriov_manage(kernel, "-e", gpu.address) == (0, "")
    assert virtual(kernel) == []


def test_all_means_every_nvidia_gpu() -> None:
    kernel = boot("A40", "T4", "A2", "MI300X")
    status, output = sriov_manage(kernel, "-e", "all")
    assert (status, output.count("Enabling")) == (0, 2)


@pytest.mark.parametrize("args", [[], ["-e"], ["-x", FIRST], ["-e", FIRST, "-r", "2"]])
def test_other_arguments_print_its_usage(args: list[str]) -> None:
    status, output = sriov_manage(boot("A40"), *args)
    assert status == 1
    assert output.startswith("Usage:\n    /usr/lib/nvidia/sriov-manage <-e|-d> <ssss:bb:dd.f|ALL>")


def test_a_gpu_that_is_not_there_ends_with_1() -> None:
    assert sriov_manage(boot("A40"), "-e", "0000:99:00.0") == (1, "")


@pytest.mark.parametrize("words", [["client", "dcgm-exporter"], ["fail", "unbind", "2"]])
def test_the_lock_is_not_given_while_somebody_holds_the_gpu(words: list[str]) -> None:
    """§4: transient "Cannot obtain unbindLock"."""
    kernel = boot("A40")
    injection.inject_gpu(kernel, FIRST, words)
    refusal = (1, f"Enabling VFs on {FIRST}\nCannot obtain unbindLock for {FIRST}\n")
    assert sriov_manage(kernel, "-e", FIRST) == refusal
    assert sriov_manage(kernel, "-e", FIRST) == refusal
    assert virtual(kernel) == []
    if words[0] == "client":
        injection.clear_gpus(kernel)
    assert sriov_manage(kernel, "-e", FIRST)[0] == 0


def test_it_destroys_instances_and_mixed_size_mode() -> None:
    """§4: -e and -d rebind the driver."""
    kernel = boot("A100-PCIE-80GB", "L40S")
    mig, mixed = kernel.nvidia.values()
    mig.set_mig_mode(True)
    mig.mig.active_grid().create(19)
    mixed.set_mixed_size(True)
    sriov_manage(kernel, "-e", "ALL")
    assert mig.mig.enabled
    assert not mig.mig.active_grid().instances
    assert not mixed.sharing.mixed
    mixed.set_mixed_size(True)
    sriov_manage(kernel, "-d", mixed.address)
    assert not mixed.sharing.mixed


def make_vgpu(kernel: Kernel, vf: str) -> str:
    """On the VF itself or as an mdev on it; the carrier's name."""
    if kernel.host.versions is NEW:
        write(kernel, vf, "nvidia/current_vgpu_type", "1147")
        return vf
    write(kernel, vf, "mdev_supported_types/nvidia-1147/create", ONE)
    return ONE


@pytest.mark.parametrize("versions", [OLD, NEW], ids=["mdev", "vendor"])
def test_vgpus_that_no_guest_has_go_with_the_vfs(versions: Versions) -> None:
    """§5: teardown may rely on sriov-manage -d."""
    kernel = with_vfs("L40S", versions=versions)
    make_vgpu(kernel, virtual(kernel)[5])
    assert sriov_manage(kernel, "-d", FIRST)[0] == 0
    assert (kernel.nvidia[FIRST].vgpus, kernel.mdevs.devices) == ((), {})
    assert sriov_manage(kernel, "-e", FIRST)[0] == 0


@pytest.mark.parametrize("versions", [OLD, NEW], ids=["mdev", "vendor"])
def test_busy_vfs_refuse(versions: Versions) -> None:
    kernel = with_vfs("L40S", versions=versions)
    carrier = make_vgpu(kernel, virtual(kernel)[5])
    kernel.held[carrier] = "vm"
    assert sriov_manage(kernel, "-d", FIRST)[0] == 1
    assert len(virtual(kernel)) == 32
    del kernel.held[carrier]
    kernel.stopped_at[carrier] = kernel.clock.now()
    assert sriov_manage(kernel, "-d", FIRST)[0] == 1
    kernel.clock.wait(5)
    assert sriov_manage(kernel, "-d", FIRST)[0] == 0


def test_a_gpu_given_to_vfio_is_left_alone() -> None:
    kernel = boot("A40")
    to_vfio(kernel, FIRST)
    status, output = sriov_manage(kernel, "-e", FIRST)
    assert (status, driver(kernel, FIRST)) == (1, "vfio-pci")
    assert "No such device" in output


def test_hosts_without_nvidia_have_no_such_program() -> None:
    refused(2, lambda: sriov_manage(boot("MI300X"), "-e", "ALL"))


def test_the_vfs_are_bound_whatever_autoprobe_says() -> None:
    kernel = boot("A40")
    write(kernel, FIRST, "sriov_drivers_autoprobe", "0")
    sriov_manage(kernel, "-e", FIRST)
    assert driver(kernel, virtual(kernel)[0]) == "nvidia"
    assert read(kernel, FIRST, "sriov_drivers_autoprobe") == "0\n"
