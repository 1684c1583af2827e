"""The files of a VF under the vendor-specific VFIO framework (behaviour §5)."""

from __future__ import annotations

import errno

import pytest

from tests.unit.sim.boards import (
    DRIVERS,
    FIRST,
    NEW,
    OLD,
    boot,
    driver,
    read,
    refused,
    sriov_manage,
    virtual,
    with_vfs,
    write,
)
from vgpumgr.model.host import Versions
from vgpumgr.sim import injection
from vgpumgr.sim.machine.kernel import Kernel

Q1, Q2, Q48 = "1147", "1148", "1156"  # NVIDIA L40S-1Q, -2Q, -48Q


@pytest.fixture
def kernel() -> Kernel:
    return with_vfs("L40S")


@pytest.fixture
def vf(kernel: Kernel) -> str:
    return virtual(kernel)[0]


def current(kernel: Kernel, vf: str, text: str) -> None:
    write(kernel, vf, "nvidia/current_vgpu_type", text)


def ids(kernel: Kernel, vf: str) -> list[str]:
    lines = read(kernel, vf, "nvidia/creatable_vgpu_types").splitlines()
    assert lines[0] == "ID    : vGPU Name"
    return [line.split(":")[0].strip() for line in lines[1:]]


@pytest.mark.parametrize(
    ("version", "vendor"),
    [("6.1.0-37-amd64", False), ("6.7.12", False), ("6.8.0-45-generic", True), ("6.12", True)],
)
def test_the_kernel_decides_between_the_two_shapes(version: str, vendor: bool) -> None:
    """§1: mdevs on VFs below 6.8, files on the VF from then; never both."""
    kernel = with_vfs("L40S", versions=Versions(kernel=version, driver="580.105.06"))
    vf = virtual(kernel)[0]
    assert kernel.tree.exists(f"/sys/bus/pci/devices/{vf}/nvidia") == vendor
    assert (vf in kernel.tree.names("/sys/class/mdev_bus")) != vendor


@pytest.mark.parametrize("versions", [OLD, NEW], ids=["mdev", "vendor"])
def test_boards_up_to_turing_make_mdevs_on_the_pf_on_every_kernel(versions: Versions) -> None:
    """§1: a legacy GPU on the same host still uses mdev."""
    kernel = boot("T4", versions=versions)
    assert kernel.tree.names("/sys/class/mdev_bus") == [FIRST]


def test_the_list_reads_as_the_capture_does(kernel: Kernel, vf: str) -> None:
    """§5: the L40S sample, and current_vgpu_type 0."""
    text = read(kernel, vf, "nvidia/creatable_vgpu_types")
    assert text.startswith("ID    : vGPU Name\n1145  : NVIDIA L40S-1B\n")
    assert "1147  : NVIDIA L40S-1Q\n" in text
    assert read(kernel, vf, "nvidia/current_vgpu_type") == "0\n"
    assert kernel.tree.names(f"/sys/bus/pci/devices/{vf}/vfio-dev")
    assert kernel.tree.exists(f"/dev/vfio/{kernel.group_of(vf)}")
    assert not kernel.tree.exists(f"/sys/bus/pci/devices/{FIRST}/nvidia")


def test_a_type_is_written_once_and_cleared(kernel: Kernel, vf: str) -> None:
    """§5: nonzero while one exists EPERM, the same id too; 0 with none EPERM."""
    refused(errno.EPERM, lambda: current(kernel, vf, "0"))
    current(kernel, vf, f"{Q1}\n")
    assert read(kernel, vf, "nvidia/current_vgpu_type") == f"{Q1}\n"
    for again in (Q1, Q2):
        refused(errno.EPERM, lambda again=again: current(kernel, vf, again))  # type: ignore[misc]
    current(kernel, vf, "0")
    assert read(kernel, vf, "nvidia/current_vgpu_type") == "0\n"
    current(kernel, vf, Q2)


def test_the_list_tells_the_state_of_the_card(kernel: Kernel) -> None:
    """§5, §14: empty on the VF with a vGPU; all others show what the card still takes."""
    first, second = virtual(kernel)[:2]
    current(kernel, first, Q2)
    assert ids(kernel, first) == []
    assert Q2 in ids(kernel, second)
    assert Q1 not in ids(kernel, second)
    current(kernel, first, "0")
    current(kernel, second, Q48)
    assert ids(kernel, first) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("L40S-1Q", errno.EINVAL),
        ("", errno.EINVAL),
        ("-1", errno.EINVAL),
        ("0x47b", errno.EINVAL),
        ("4294967296", errno.ERANGE),
        ("9999", errno.EIO),
    ],
)
def test_what_is_no_type_is_refused(kernel: Kernel, vf: str, text: str, number: int) -> None:
    """§5: non-number EINVAL, overflow ERANGE, the resource manager's refusal EIO."""
    refused(number, lambda: current(kernel, vf, text))


def test_a_refusal_of_the_resource_manager_is_eio_with_a_log(kernel: Kernel) -> None:
    """§3, §6: another size is 0x56 in the kernel log."""
    first, second = virtual(kernel)[:2]
    current(kernel, first, Q1)
    refused(errno.EIO, lambda: current(kernel, second, Q2))
    assert "NVRM: Failed to add vgpu create request: 0x56" in kernel.nvidia[FIRST].log


def test_a_guest_keeps_its_vgpu_and_the_plugin_ends_late(kernel: Kernel, vf: str) -> None:
    """§5: 0 while a VM has it open EPERM, while the plugin is still alive EBUSY."""
    current(kernel, vf, Q1)
    kernel.held[vf] = "vm"
    refused(errno.EPERM, lambda: current(kernel, vf, "0"))
    del kernel.held[vf]
    kernel.stopped_at[vf] = kernel.clock.now()
    refused(errno.EBUSY, lambda: current(kernel, vf, "0"))
    kernel.clock.wait(2)
    current(kernel, vf, "0")


@pytest.mark.parametrize("name", ["gpu_instance_id", "placement_id", "vgpu_params"])
def test_nothing_is_told_of_no_vgpu(kernel: Kernel, vf: str, name: str) -> None:
    """§5: ENXIO before a vGPU exists."""
    refused(errno.ENXIO, lambda: read(kernel, vf, f"nvidia/{name}"))


def test_the_drivers_choice_is_read_afterwards(kernel: Kernel, vf: str) -> None:
    """§5, §7: Ada reports places in same-size mode; there is no GPU instance."""
    current(kernel, vf, Q1)
    assert read(kernel, vf, "nvidia/placement_id") == "0\n"
    assert read(kernel, vf, "nvidia/gpu_instance_id") == "Not Applicable\n"
    current(kernel, virtual(kernel)[1], Q1)
    assert read(kernel, virtual(kernel)[1], "nvidia/placement_id") == "1\n"


def test_ampere_tells_no_place_in_same_size_mode() -> None:
    """§7: Ada and Hopper report equal-size placements, Ampere none."""
    kernel = with_vfs("A40")
    vf = virtual(kernel)[0]
    current(kernel, vf, ids(kernel, vf)[0])
    assert read(kernel, vf, "nvidia/placement_id") == "Not Applicable\n"


def test_a_place_is_written_while_nobody_uses_it(kernel: Kernel) -> None:
    """§7: vendor VF: write placement_id; an id that the type has not, or that is taken."""
    first, second = virtual(kernel)[:2]
    refused(errno.ENXIO, lambda: write(kernel, first, "nvidia/placement_id", "4"))
    current(kernel, first, Q1)
    current(kernel, second, Q1)
    write(kernel, first, "nvidia/placement_id", "4")
    assert read(kernel, first, "nvidia/placement_id") == "4\n"
    refused(errno.EBUSY, lambda: write(kernel, second, "nvidia/placement_id", "4"))
    refused(errno.EINVAL, lambda: write(kernel, second, "nvidia/placement_id", "77"))
    refused(errno.EINVAL, lambda: write(kernel, second, "nvidia/placement_id", "here"))
    kernel.held[second] = "vm"
    refused(errno.EPERM, lambda: write(kernel, second, "nvidia/placement_id", "5"))


def test_parameters_are_replaced_and_cleared(kernel: Kernel, vf: str) -> None:
    """§3, §5: > 1024 bytes E2BIG, no device ENXIO, while in use EPERM, a single space clears."""
    refused(errno.ENXIO, lambda: write(kernel, vf, "nvidia/vgpu_params", "enable_uvm=1"))
    refused(errno.E2BIG, lambda: write(kernel, vf, "nvidia/vgpu_params", "x" * 1025))
    current(kernel, vf, Q1)
    write(kernel, vf, "nvidia/vgpu_params", "frame_rate_limiter=0,disable_vnc=1\n")
    assert read(kernel, vf, "nvidia/vgpu_params") == "frame_rate_limiter=0, disable_vnc=1\n"
    write(kernel, vf, "nvidia/vgpu_params", "frame_rate_limiter=1")
    assert read(kernel, vf, "nvidia/vgpu_params") == "frame_rate_limiter=1\n"
    write(kernel, vf, "nvidia/vgpu_params", " ")
    assert read(kernel, vf, "nvidia/vgpu_params") == "\n"
    kernel.held[vf] = "vm"
    refused(errno.EPERM, lambda: write(kernel, vf, "nvidia/vgpu_params", "enable_uvm=1"))


def test_the_type_goes_with_the_driver(kernel: Kernel, vf: str) -> None:
    """§14: a driver reload loses it; unbinding a VF that carries one would block: EBUSY."""
    current(kernel, vf, Q1)
    refused(errno.EBUSY, lambda: kernel.tree.write(f"{DRIVERS}/nvidia/unbind", vf))
    current(kernel, vf, "0")
    kernel.tree.write(f"{DRIVERS}/nvidia/unbind", vf)
    assert driver(kernel, vf) is None
    assert not kernel.tree.exists(f"/sys/bus/pci/devices/{vf}/nvidia")
    assert not kernel.tree.exists(f"/dev/vfio/{kernel.group_of(vf)}")


def test_mig_without_instances_offers_nothing() -> None:
    """§5, §6, §8: empty list with MIG on and no GPU instance, EIO with 0x38; then the profile's."""
    kernel = boot("H100-PCIE-80GB")
    gpu = kernel.nvidia[FIRST]
    gpu.set_mig_mode(True)
    sriov_manage(kernel, "-e", FIRST)
    first, second = virtual(kernel)[:2]
    assert ids(kernel, first) == []
    type_id = next(str(each.id) for each in gpu.types() if each.mig == "1g.10gb")
    refused(errno.EIO, lambda: current(kernel, first, type_id))
    assert "NVRM: Failed to add vgpu create request: 0x38" in gpu.log
    made = gpu.mig.active_grid().create(19)
    assert type_id in ids(kernel, first)
    current(kernel, first, type_id)
    assert read(kernel, first, "nvidia/gpu_instance_id") == f"{made.id}\n"
    refused(errno.EIO, lambda: current(kernel, second, type_id))


def test_a_creation_fails_as_often_as_injected(kernel: Kernel, vf: str) -> None:
    injection.inject_gpu(kernel, FIRST, ["fail", "create", "1"])
    refused(errno.EIO, lambda: current(kernel, vf, Q1))
    current(kernel, vf, Q1)
