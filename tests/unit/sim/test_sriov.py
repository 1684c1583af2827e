"""VFs as the kernel shows them, and what it answers (behaviour §4, §14)."""

from __future__ import annotations

import errno

import pytest

from tests.unit.sim.boards import (
    DEVICES,
    DRIVERS,
    FIRST,
    NEW,
    boot,
    driver,
    host,
    read,
    refused,
    sriov_manage,
    to_vfio,
    virtual,
    with_vfs,
    write,
)
from vgpumgr.model.sim_fleet import SimBoard
from vgpumgr.sim.machine.durable_texts import Durable
from vgpumgr.sim.machine.kernel import Kernel


def numvfs(kernel: Kernel, text: str) -> None:
    write(kernel, FIRST, "sriov_numvfs", text)


@pytest.mark.parametrize(
    ("board", "first", "last", "count"),
    [
        ("A40", "00.4", "04.3", 32),
        ("A2", "00.4", "02.3", 16),
        ("RTX-PRO-6000-BSE", "00.2", "06.1", 48),
    ],
)
def test_addresses_run_on_from_the_offset(board: str, first: str, last: str, count: int) -> None:
    """§4: 32 VFs end at 04.3, 16 at 02.3; gpus.yaml: RTX PRO 6000's first is 00.2."""
    kernel = with_vfs(board)
    vfs = virtual(kernel)
    assert (len(vfs), vfs[0], vfs[-1]) == (count, f"0000:41:{first}", f"0000:41:{last}")
    assert read(kernel, FIRST, "sriov_offset") == f"{int(first[-1])}\n"
    assert read(kernel, FIRST, "sriov_stride") == "1\n"
    assert read(kernel, FIRST, "sriov_totalvfs") == read(kernel, FIRST, "sriov_numvfs")


def test_rtx_pro_has_its_links_where_a_host_had_them() -> None:
    """gpus.yaml: virtfn10 at 01.4, virtfn20 at 02.6."""
    vfs = virtual(with_vfs("RTX-PRO-6000-BSE"))
    assert (vfs[10], vfs[20]) == ("0000:41:01.4", "0000:41:02.6")


def test_a_vf_has_its_pfs_id_a_group_of_its_own_and_a_way_back() -> None:
    """§14: VFs with the PF's device id, each in its own IOMMU group; §4: physfn, vf_device."""
    kernel = with_vfs("L40S")
    vfs = virtual(kernel)
    assert {read(kernel, vf, "device") for vf in vfs} == {read(kernel, FIRST, "device")}
    assert read(kernel, FIRST, "sriov_vf_device") == "26b9\n"
    assert kernel.tree.readlink(f"{DEVICES}/{vfs[3]}/physfn").endswith(FIRST)
    groups = {kernel.group_of(each) for each in (FIRST, *vfs)}
    assert len(groups) == 33
    folder = f"/sys/kernel/iommu_groups/{kernel.group_of(vfs[0])}/devices"
    assert kernel.tree.names(folder) == [vfs[0]]


@pytest.mark.parametrize(
    ("text", "number"),
    [("few", errno.EINVAL), ("-1", errno.EINVAL), ("33", errno.ERANGE), ("4", errno.ENOENT)],
)
def test_nvidias_driver_takes_no_raw_write(text: str, number: int) -> None:
    """§4: not a number EINVAL, over the total ERANGE, without callback ENOENT."""
    kernel = boot("A40")
    refused(number, lambda: numvfs(kernel, text))
    numvfs(kernel, "0\n")


def test_the_count_it_has_is_taken_and_no_other() -> None:
    """§4: the same value is accepted; NVIDIA refuses the rest, 0 too."""
    kernel = with_vfs("A40")
    numvfs(kernel, "32")
    refused(errno.ENOENT, lambda: numvfs(kernel, "0"))


def test_xe_goes_through_zero() -> None:
    """§4, §16: nonzero to another nonzero EBUSY, over the total ERANGE."""
    kernel = boot("ARC-PRO-B50")
    numvfs(kernel, "8")
    assert virtual(kernel)[::7] == ["0000:41:00.1", "0000:41:01.0"]
    refused(errno.EBUSY, lambda: numvfs(kernel, "4"))
    refused(errno.ERANGE, lambda: numvfs(kernel, "25"))
    numvfs(kernel, "8")
    numvfs(kernel, "0")
    assert virtual(kernel) == []
    assert not kernel.tree.exists(f"{DEVICES}/0000:41:00.1")
    numvfs(kernel, "4")
    assert len(virtual(kernel)) == 4


def test_a_pf_without_driver_sets_no_vfs() -> None:
    """§4: no driver ENOENT."""
    kernel = boot("ARC-PRO-B50")
    kernel.tree.write(f"{DRIVERS}/xe/unbind", FIRST)
    refused(errno.ENOENT, lambda: numvfs(kernel, "1"))


def test_intels_driver_takes_the_vfs_unless_told_not_to() -> None:
    """§16: VF and PF share the device id; sriov_gpus.yaml: autoprobe off, or bind by address."""
    kernel = boot("ARC-PRO-B50")
    numvfs(kernel, "1")
    vf = virtual(kernel)[0]
    assert (driver(kernel, vf), read(kernel, vf, "device")) == ("xe", "0xe212\n")
    numvfs(kernel, "0")
    refused(errno.EINVAL, lambda: write(kernel, FIRST, "sriov_drivers_autoprobe", "maybe"))
    write(kernel, FIRST, "sriov_drivers_autoprobe", "0")
    numvfs(kernel, "1")
    assert driver(kernel, vf) is None
    to_vfio(kernel, vf)
    assert driver(kernel, vf) == "vfio-pci"


def test_a_guest_keeps_the_vfs() -> None:
    kernel = boot("ARC-PRO-B50")
    numvfs(kernel, "2")
    vf = virtual(kernel)[1]
    to_vfio(kernel, vf)
    kernel.held[vf] = "vm"
    refused(errno.EBUSY, lambda: numvfs(kernel, "0"))
    refused(errno.EBUSY, lambda: kernel.tree.write(f"{DRIVERS}/xe/unbind", FIRST))
    assert len(virtual(kernel)) == 2


@pytest.mark.parametrize("board", ["ARC-PRO-B50", "FLEX-170"])
def test_intels_vfs_go_with_the_pfs_driver(board: str) -> None:
    kernel = boot(board)
    numvfs(kernel, "2")
    kernel.tree.write(f"{DRIVERS}/{driver(kernel, FIRST)}/unbind", FIRST)
    assert read(kernel, FIRST, "sriov_numvfs") == "0\n"


def test_gim_makes_its_vfs_when_it_loads() -> None:
    """§16: module option, default 1; no driver of the host takes them; writes ENOENT, 0 too."""
    kernel = boot(SimBoard(board="MI300X", vfs=8), "MI300X", "V710")
    first, second, third = (gpu.address for gpu in kernel.gpus)
    assert [len(virtual(kernel, each)) for each in (first, second, third)] == [8, 1, 1]
    vf = virtual(kernel)[0]
    assert (vf, read(kernel, vf, "device"), driver(kernel, vf)) == (
        "0000:41:02.0",
        "0x74b5\n",
        None,
    )
    assert read(kernel, FIRST, "class") == "0x120000\n"
    for text in ("0", "1"):
        refused(errno.ENOENT, lambda text=text: numvfs(kernel, text))  # type: ignore[misc]
    to_vfio(kernel, vf)
    assert driver(kernel, vf) == "vfio-pci"


def test_too_many_vfs_leave_a_bound_gpu_without_any() -> None:
    """sriov_gpus.yaml: vf_num above the total: it fails to initialise and counts as bound."""
    kernel = boot(SimBoard(board="MI300X", vfs=9))
    assert (driver(kernel, FIRST), virtual(kernel)) == ("gim", [])


def test_vfio_takes_no_pf_with_vfs() -> None:
    """§4: vfio-pci refuses to bind a PF that has VFs (EBUSY)."""
    kernel = with_vfs("A40")
    to_vfio(kernel, FIRST)
    assert driver(kernel, FIRST) is None
    refused(errno.EBUSY, lambda: kernel.tree.write(f"{DRIVERS}/vfio-pci/bind", FIRST))


def test_vfs_are_gone_after_a_boot_and_gims_are_there() -> None:
    """§4: VFs vanish on reboot; §16: gim makes its own at load."""
    durable = Durable("h1")
    before = boot("A40", SimBoard(board="MI300X", vfs=8), durable=durable)
    sriov_manage(before, "-e", "ALL")
    after = Kernel(host("A40", SimBoard(board="MI300X", vfs=8), versions=NEW), durable)
    assert [len(virtual(after, gpu.address)) for gpu in after.gpus] == [0, 8]


def test_a_vf_is_reset_and_takes_only_what_it_has() -> None:
    """§11: reset only 1, else EINVAL, ENOTTY without a method; reset_method a subset."""
    kernel = boot(SimBoard(board="MI300X", vfs=8))
    vf = virtual(kernel)[0]
    function = kernel.pci.functions[vf]
    function.dirty = True
    refused(errno.EINVAL, lambda: write(kernel, vf, "reset", "2"))
    assert function.dirty
    write(kernel, vf, "reset", "1\n")
    assert not function.dirty
    refused(errno.EINVAL, lambda: write(kernel, vf, "reset_method", "acpi"))
    write(kernel, vf, "reset_method", "")
    refused(errno.ENOTTY, lambda: write(kernel, vf, "reset", "1"))
    write(kernel, vf, "reset_method", "default")
    assert read(kernel, vf, "reset_method") == "flr\n"
