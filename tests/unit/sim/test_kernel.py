"""The simulated kernel refuses as the real one does, errno by errno."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr.model.errors import UsageError
from vgpumgr.model.sim_fleet import SimBoard, SimHost
from vgpumgr.sim.machine.durable_texts import Durable
from vgpumgr.sim.machine.kernel import Kernel

T4, SECOND_T4, H100, A6000 = (f"0000:{bus}:00.0" for bus in ("41", "43", "45", "47"))
BOARDS = (
    SimBoard(board="T4", count=2),
    SimBoard(board="H100-PCIE-80GB"),
    SimBoard(board="RTX-A6000"),
    SimBoard(board="mbochs"),
    SimBoard(board="mtty"),
)
ONE = "4b20d080-1b54-4048-85b3-a6a62d165c01"
TWO = "4b20d080-1b54-4048-85b3-a6a62d165c02"
DRIVERS = "/sys/bus/pci/drivers"


@pytest.fixture
def kernel() -> Kernel:
    kernel = Kernel(SimHost(name="h1", boards=BOARDS), Durable("h1"))
    kernel.modprobe("vfio-pci")
    return kernel


def types(parent: str) -> str:
    return f"/sys/class/mdev_bus/{parent}/mdev_supported_types"


def create(kernel: Kernel, uuid: str, type_id: str = "nvidia-232", parent: str = T4) -> None:
    kernel.tree.write(f"{types(parent)}/{type_id}/create", uuid)


def remove(kernel: Kernel, uuid: str, text: str = "1") -> None:
    kernel.tree.write(f"/sys/bus/mdev/devices/{uuid}/remove", text)


def available(kernel: Kernel, type_id: str, parent: str = T4) -> int:
    return int(kernel.tree.read(f"{types(parent)}/{type_id}/available_instances"))


def to_vfio(kernel: Kernel, address: str) -> None:
    write = kernel.tree.write
    write(f"/sys/bus/pci/devices/{address}/driver_override", "vfio-pci\n")
    write(f"{DRIVERS}/nvidia/unbind", address)
    write("/sys/bus/pci/drivers_probe", address)


def driver(kernel: Kernel, address: str) -> str | None:
    return kernel.pci.functions[address].driver


def refused(number: int, act: Callable[[], object]) -> None:
    with pytest.raises(OSError) as caught:
        act()
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number]


# -- mdev core


@pytest.mark.parametrize("text", ["", ONE[:-1], ONE + "ab", ONE + "\n\n", "x" * 36, "\n"])
def test_create_takes_a_uuid_of_36_characters_and_perhaps_a_newline(
    kernel: Kernel, text: str
) -> None:
    refused(errno.EINVAL, lambda: create(kernel, text))


def test_create_lower_cases_the_uuid_and_shows_the_device(kernel: Kernel) -> None:
    create(kernel, ONE.upper() + "\n")
    device = f"/sys/bus/mdev/devices/{ONE}"
    assert kernel.tree.names("/sys/bus/mdev/devices") == [ONE]
    assert kernel.tree.real(device).endswith(f"/{T4}/{ONE}")
    assert kernel.tree.readlink(f"{device}/mdev_type").endswith("/nvidia-232")
    group = kernel.tree.readlink(f"{device}/iommu_group").rpartition("/")[2]
    assert kernel.tree.exists(f"/dev/vfio/{group}")


def test_a_uuid_exists_once_under_all_parents(kernel: Kernel) -> None:
    create(kernel, ONE)
    refused(errno.EEXIST, lambda: create(kernel, ONE))
    refused(errno.EEXIST, lambda: create(kernel, ONE, parent=SECOND_T4))
    refused(errno.EEXIST, lambda: create(kernel, ONE, "mbochs-small", "mbochs"))


def test_remove_reads_a_number(kernel: Kernel) -> None:
    create(kernel, ONE)
    refused(errno.EINVAL, lambda: remove(kernel, ONE, "now"))
    remove(kernel, ONE, "0")
    assert kernel.tree.exists(f"/sys/bus/mdev/devices/{ONE}")
    remove(kernel, ONE)
    assert not kernel.tree.exists(f"/sys/bus/mdev/devices/{ONE}")
    refused(errno.ENOENT, lambda: remove(kernel, ONE))


def test_a_held_mdev_is_not_removed(kernel: Kernel) -> None:
    create(kernel, ONE)
    create(kernel, TWO, "mbochs-small", "mbochs")
    kernel.held = {ONE: "vm", TWO: "vm"}
    refused(errno.EPERM, lambda: remove(kernel, ONE))
    refused(errno.EBUSY, lambda: remove(kernel, TWO))


def test_its_iommu_group_goes_with_an_mdev(kernel: Kernel) -> None:
    create(kernel, ONE)
    group = kernel.group_of(ONE)
    remove(kernel, ONE)
    assert not kernel.tree.exists(f"/dev/vfio/{group}")
    assert not kernel.tree.exists(f"/sys/kernel/iommu_groups/{group}")


# -- NVIDIA's rules on a PF


def test_the_first_vgpu_fixes_the_size(kernel: Kernel) -> None:
    create(kernel, ONE)
    assert available(kernel, "nvidia-231") == 0
    refused(errno.EIO, lambda: create(kernel, TWO, "nvidia-231"))


def test_types_of_the_same_size_count_down_together(kernel: Kernel) -> None:
    assert (available(kernel, "nvidia-232"), available(kernel, "nvidia-227")) == (4, 4)
    create(kernel, ONE)
    create(kernel, TWO, "nvidia-227")
    assert (available(kernel, "nvidia-232"), available(kernel, "nvidia-227")) == (2, 2)


def test_no_more_than_the_maximum_of_a_type(kernel: Kernel) -> None:
    create(kernel, ONE, "nvidia-234")
    refused(errno.EIO, lambda: create(kernel, TWO, "nvidia-234"))


def test_another_gpu_has_a_size_of_its_own(kernel: Kernel) -> None:
    create(kernel, ONE)
    create(kernel, TWO, "nvidia-231", SECOND_T4)


def test_the_description_is_the_drivers_line(kernel: Kernel) -> None:
    assert kernel.tree.read(f"{types(T4)}/nvidia-232/description") == (
        "num_heads=4, frl_config=60, framebuffer=4096M, max_resolution=7680x4320, max_instance=4\n"
    )
    assert kernel.tree.read(f"{types(T4)}/nvidia-232/name") == "GRID T4-4Q\n"


@settings(deadline=None)
@given(st.lists(st.sampled_from(["make", "drop"]), max_size=30))
def test_available_plus_made_is_always_the_maximum(moves: list[str]) -> None:
    kernel = Kernel(SimHost(name="h1", boards=BOARDS), Durable("h1"))
    made: list[str] = []
    for number, move in enumerate(moves):
        uuid = f"4b20d080-1b54-4048-85b3-{number:012d}"
        if move == "make" and available(kernel, "nvidia-230"):
            create(kernel, uuid, "nvidia-230")
            made.append(uuid)
        elif move == "drop" and made:
            remove(kernel, made.pop())
        assert available(kernel, "nvidia-230") + len(made) == 16
        assert (available(kernel, "nvidia-231") == 0) == bool(made)


# -- the sample drivers


def test_sample_types_share_one_budget(kernel: Kernel) -> None:
    sizes = ("mbochs-large", "mbochs-medium", "mbochs-small")
    assert [available(kernel, each, "mbochs") for each in sizes] == [4, 16, 64]
    create(kernel, ONE, "mbochs-medium", "mbochs")
    assert [available(kernel, each, "mbochs") for each in sizes] == [3, 15, 60]


def test_a_sample_out_of_budget_says_no_space(kernel: Kernel) -> None:
    for number in range(12):
        create(kernel, f"4b20d080-1b54-4048-85b3-{number:012d}", "mtty-2", "mtty")
    assert available(kernel, "mtty-1", "mtty") == 0
    refused(errno.ENOSPC, lambda: create(kernel, ONE, "mtty-1", "mtty"))


def test_mtty_has_no_description(kernel: Kernel) -> None:
    refused(errno.ENOENT, lambda: kernel.tree.read(f"{types('mtty')}/mtty-1/description"))


def test_a_sample_exists_once() -> None:
    with pytest.raises(UsageError, match="mbochs"):
        Kernel(SimHost(name="h1", boards=(SimBoard(board="mbochs", count=2),)), Durable("h1"))


def test_an_unknown_board_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no board 'T5'"):
        Kernel(SimHost(name="h1", boards=(SimBoard(board="T5"),)), Durable("h1"))


# -- PCI


def test_bind_wants_a_device_that_matches(kernel: Kernel) -> None:
    write = kernel.tree.write
    refused(errno.ENODEV, lambda: write(f"{DRIVERS}/vfio-pci/bind", H100))
    refused(errno.ENODEV, lambda: write(f"{DRIVERS}/nvidia/bind", "0000:99:00.0"))
    refused(errno.EBUSY, lambda: write(f"{DRIVERS}/nvidia/bind", H100))


def test_unbind_wants_a_device_of_that_driver(kernel: Kernel) -> None:
    refused(errno.ENODEV, lambda: kernel.tree.write(f"{DRIVERS}/vfio-pci/unbind", H100))
    refused(errno.ENODEV, lambda: kernel.tree.write(f"{DRIVERS}/nvidia/unbind", "0000:99:00.0"))


def test_drivers_probe_wants_a_device(kernel: Kernel) -> None:
    refused(errno.ENODEV, lambda: kernel.tree.write("/sys/bus/pci/drivers_probe", "0000:99:00.0"))
    kernel.tree.write("/sys/bus/pci/drivers_probe", H100)
    assert driver(kernel, H100) == "nvidia"


def test_driver_override_is_shorter_than_a_page(kernel: Kernel) -> None:
    path = f"/sys/bus/pci/devices/{H100}/driver_override"
    refused(errno.EINVAL, lambda: kernel.tree.write(path, "x" * 4095))
    assert kernel.tree.read(path) == "(null)\n"
    kernel.tree.write(path, "vfio-pci\n")
    assert kernel.tree.read(path) == "vfio-pci\n"
    kernel.tree.write(path, "\n")
    assert kernel.tree.read(path) == "(null)\n"


def test_an_override_keeps_every_other_driver_away(kernel: Kernel) -> None:
    kernel.tree.write(f"/sys/bus/pci/devices/{H100}/driver_override", "pci-stub")
    kernel.tree.write(f"{DRIVERS}/nvidia/unbind", H100)
    kernel.tree.write("/sys/bus/pci/drivers_probe", H100)
    assert driver(kernel, H100) is None
    refused(errno.ENODEV, lambda: kernel.tree.write(f"{DRIVERS}/nvidia/bind", H100))


def test_a_gpu_with_mdevs_is_not_unbound(kernel: Kernel) -> None:
    create(kernel, ONE)
    refused(errno.EBUSY, lambda: kernel.tree.write(f"{DRIVERS}/nvidia/unbind", T4))
    assert driver(kernel, T4) == "nvidia"


def test_a_parent_goes_with_its_driver_and_comes_back_empty(kernel: Kernel) -> None:
    to_vfio(kernel, T4)
    assert driver(kernel, T4) == "vfio-pci"
    assert T4 not in kernel.tree.names("/sys/class/mdev_bus")
    assert kernel.tree.exists(f"/dev/vfio/{kernel.group_of(T4)}")
    kernel.tree.write(f"/sys/bus/pci/devices/{T4}/driver_override", "\n")
    kernel.tree.write(f"{DRIVERS}/vfio-pci/unbind", T4)
    kernel.tree.write("/sys/bus/pci/drivers_probe", T4)
    assert driver(kernel, T4) == "nvidia"
    assert available(kernel, "nvidia-232") == 4
    assert not kernel.tree.exists(f"/dev/vfio/{kernel.group_of(T4)}")


def test_a_held_function_stays_on_vfio(kernel: Kernel) -> None:
    to_vfio(kernel, H100)
    kernel.held[H100] = "vm"
    refused(errno.EBUSY, lambda: kernel.tree.write(f"{DRIVERS}/vfio-pci/unbind", H100))


def test_a_display_board_shares_its_group_with_its_audio_function(kernel: Kernel) -> None:
    group = kernel.group_of(A6000)
    members = kernel.tree.names(f"/sys/kernel/iommu_groups/{group}/devices")
    assert members == [A6000, A6000.replace(".0", ".1")]
    assert driver(kernel, members[1]) == "snd_hda_intel"
    assert kernel.tree.read(f"/sys/bus/pci/devices/{A6000}/boot_vga") == "0\n"
    refused(errno.ENOENT, lambda: kernel.tree.read(f"/sys/bus/pci/devices/{T4}/boot_vga"))


def test_without_an_iommu_vfio_takes_nothing() -> None:
    kernel = Kernel(SimHost(name="h1", boards=BOARDS, iommu=False), Durable("h1"))
    kernel.modprobe("vfio-pci")
    assert kernel.tree.names("/sys/class/iommu") == []
    assert not kernel.tree.exists(f"/sys/bus/pci/devices/{H100}/iommu_group")
    to_vfio(kernel, H100)
    assert driver(kernel, H100) is None
    refused(errno.EINVAL, lambda: kernel.tree.write(f"{DRIVERS}/vfio-pci/bind", H100))


def test_modprobe_knows_what_there_is(kernel: Kernel) -> None:
    assert kernel.modprobe("vfio_pci") == (0, "")
    status, output = kernel.modprobe("amdgpu")
    assert status == 1
    assert "amdgpu not found" in output


def test_vfs_are_not_switched_on_by_a_raw_write(kernel: Kernel) -> None:
    path = f"/sys/bus/pci/devices/{H100}/sriov_numvfs"
    refused(errno.ENOENT, lambda: kernel.tree.write(path, "4"))


def test_files_are_read_or_written_as_their_mode_says(kernel: Kernel) -> None:
    refused(errno.EACCES, lambda: kernel.tree.read(f"{types(T4)}/nvidia-232/create"))
    refused(errno.EACCES, lambda: kernel.tree.write(f"{types(T4)}/nvidia-232/name", "x"))
    refused(errno.EISDIR, lambda: kernel.tree.read("/sys/bus/pci"))
    refused(errno.ENOTDIR, lambda: kernel.tree.names("/proc/meminfo"))
    refused(errno.EINVAL, lambda: kernel.tree.readlink("/proc/meminfo"))


# -- the machine


def test_gpus_memory_and_huge_pages_are_spread_over_the_nodes() -> None:
    host = SimHost(name="h1", boards=BOARDS, hugepages_1gib=5, memory_mib=64 * 1024, cpus=7)
    kernel = Kernel(host, Durable("h1"))
    pages = [
        kernel.tree.read(
            f"/sys/devices/system/node/node{node}/hugepages/hugepages-1048576kB/nr_hugepages"
        )
        for node in (0, 1)
    ]
    assert pages == ["2\n", "3\n"]
    nodes = [
        kernel.tree.read(f"/sys/bus/pci/devices/{gpu}/numa_node")
        for gpu in (T4, SECOND_T4, H100, A6000)
    ]
    assert nodes == ["0\n", "0\n", "1\n", "1\n"]
    assert kernel.tree.read("/sys/devices/system/node/node1/cpulist") == "3-6\n"


def test_every_boot_has_its_own_id() -> None:
    ids = {
        Kernel(SimHost(name="h1"), Durable("h1")).tree.read("/proc/sys/kernel/random/boot_id")
        for _ in range(3)
    }
    assert len(ids) == 3


def test_only_ordinary_files_survive_the_kernel() -> None:
    durable = Durable("h1")
    before = Kernel(SimHost(name="h1", boards=BOARDS), durable)
    before.store("/var/lib/vgpumgr/claims/mdev-x.json", "{}")
    create(before, ONE)
    after = Kernel(SimHost(name="h1", boards=BOARDS), durable)
    assert after.tree.read("/var/lib/vgpumgr/claims/mdev-x.json") == "{}"
    assert after.tree.names("/sys/bus/mdev/devices") == []
    refused(errno.ENOTEMPTY, lambda: after.remove("/var/lib/vgpumgr/claims"))
    after.remove("/var/lib/vgpumgr/claims/mdev-x.json")
    refused(errno.ENOENT, lambda: after.remove("/var/lib/vgpumgr/claims/mdev-x.json"))
    after.remove("/var/lib/vgpumgr/claims")
