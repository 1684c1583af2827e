"""mdevs on VFs, before kernel 6.8 (behaviour §2, §3)."""

from __future__ import annotations

import errno

import pytest

from tests.unit.sim.boards import (
    FIRST,
    OLD,
    ONE,
    TWO,
    boot,
    read,
    refused,
    virtual,
    with_vfs,
    write,
)
from vgpumgr.sim.machine.kernel import Kernel

Q1, Q2, Q4 = "nvidia-557", "nvidia-558", "nvidia-560"


@pytest.fixture
def kernel() -> Kernel:
    return with_vfs("A40", versions=OLD)


def create(kernel: Kernel, vf: str, uuid: str, type_id: str = Q1) -> None:
    write(kernel, vf, f"mdev_supported_types/{type_id}/create", uuid)


def available(kernel: Kernel, vf: str, type_id: str = Q1) -> int:
    return int(read(kernel, vf, f"mdev_supported_types/{type_id}/available_instances"))


def test_every_vf_is_a_parent_and_the_pf_is_none(kernel: Kernel) -> None:
    """§1: the parent device is every VF."""
    assert kernel.tree.names("/sys/class/mdev_bus") == sorted(virtual(kernel))


def test_a_free_vf_has_one_of_what_fits(kernel: Kernel) -> None:
    """§3: 1 while the VF is free and the type fits, else 0; with an mdev all its types read 0."""
    first, second = virtual(kernel)[:2]
    assert {available(kernel, first, each) for each in (Q1, Q2, Q4)} == {1}
    create(kernel, first, ONE, Q2)
    assert {available(kernel, first, each) for each in (Q1, Q2, Q4)} == {0}
    assert [available(kernel, second, each) for each in (Q1, Q2, Q4)] == [0, 1, 0]


def test_a_vf_carries_one_and_the_card_one_size(kernel: Kernel) -> None:
    """§3, §6: EIO and the kernel's log."""
    first, second = virtual(kernel)[:2]
    create(kernel, first, ONE)
    refused(errno.EIO, lambda: create(kernel, first, TWO))
    refused(errno.EIO, lambda: create(kernel, second, TWO, Q2))
    assert "NVRM: Failed to add vgpu create request: 0x56" in kernel.nvidia[FIRST].log
    refused(errno.EEXIST, lambda: create(kernel, second, ONE))
    create(kernel, second, TWO)


def test_the_description_is_the_drivers_line(kernel: Kernel) -> None:
    """§3: one line and one newline."""
    text = read(kernel, virtual(kernel)[7], f"mdev_supported_types/{Q4}/description")
    assert text == (
        "num_heads=4, frl_config=60, framebuffer=4096M, max_resolution=7680x4320, max_instance=12\n"
    )


def test_the_drivers_files_of_an_mdev(kernel: Kernel) -> None:
    """§3: vm_name empty until a VM uses it, vgpu_params, placement_id or Not Applicable."""
    vf, at = virtual(kernel)[0], f"/sys/bus/mdev/devices/{ONE}/nvidia"
    create(kernel, vf, ONE)
    tree = kernel.tree
    assert tree.read(f"{at}/vm_name") == "\n"
    assert tree.read(f"{at}/placement_id") == "Not Applicable\n"
    tree.write(f"{at}/vgpu_params", "frame_rate_limiter=0")
    assert tree.read(f"{at}/vgpu_params") == "frame_rate_limiter=0\n"
    refused(errno.E2BIG, lambda: tree.write(f"{at}/vgpu_params", "x" * 1025))
    kernel.nvidia[FIRST].start_vm([ONE], "desk-1")
    assert tree.read(f"{at}/vm_name") == "desk-1\n"


def test_mixed_size_gives_places() -> None:
    """§7: the region of an A40 is 48 GiB, the default the first creatable."""
    kernel = with_vfs("A40", versions=OLD)
    kernel.nvidia[FIRST].set_mixed_size(True)
    first, second = virtual(kernel)[:2]
    create(kernel, first, ONE, Q4)
    create(kernel, second, TWO, Q1)
    places = [
        int(kernel.tree.read(f"/sys/bus/mdev/devices/{uuid}/nvidia/placement_id"))
        for uuid in (ONE, TWO)
    ]
    assert places[0] == 0
    assert places[1] >= 4


def test_an_mdev_goes_and_the_vf_is_free_again(kernel: Kernel) -> None:
    vf = virtual(kernel)[0]
    create(kernel, vf, ONE)
    kernel.held[ONE] = "vm"
    refused(errno.EPERM, lambda: kernel.tree.write(f"/sys/bus/mdev/devices/{ONE}/remove", "1"))
    kernel.held.clear()
    kernel.tree.write(f"/sys/bus/mdev/devices/{ONE}/remove", "1")
    assert (available(kernel, vf), kernel.nvidia[FIRST].vgpus) == (1, ())


def test_a_pf_with_mdevs_on_its_vfs_is_not_unbound(kernel: Kernel) -> None:
    create(kernel, virtual(kernel)[0], ONE)
    refused(errno.EBUSY, lambda: kernel.tree.write("/sys/bus/pci/drivers/nvidia/unbind", FIRST))


def test_every_board_describes_its_types() -> None:
    """Where the catalogue lacks heads and resolution, the series tells (§6)."""
    kernel = boot("RTX-PRO-6000-BSE", versions=OLD)
    texts = [each.description or "" for each in kernel.gpus[0].board.types]
    assert len(texts) == 72
    assert all(text.startswith("num_heads=") and "None" not in text for text in texts)
