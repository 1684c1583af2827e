"""Mixed-size mode, scheduler, ECC, Xids and reset of the simulated GPU."""

from __future__ import annotations

import errno

import pytest

from tests.unit.sim.nvidia_gpu import gpu_of, make, mig_gpu, oserror, refused
from vgpumgr.model.layout import Scheduler
from vgpumgr.sim.nvidia.gpu_health import Recovery
from vgpumgr.sim.nvidia.rm_status import RmStatus


def test_mixed_size_wants_an_empty_gpu() -> None:
    """behaviour §7: IN_USE with a vGPU or another client."""
    gpu = gpu_of("A40")
    make(gpu, "A40-8Q")
    with refused(RmStatus.IN_USE):
        gpu.set_mixed_size(True)
    gpu.destroy("vf0")
    gpu.clients.add("nvidia-smi")
    with refused(RmStatus.IN_USE):
        gpu.set_mixed_size(True)
    gpu.clients.clear()
    gpu.set_mixed_size(True)
    make(gpu, "A40-8Q", "A40-4Q")
    with refused(RmStatus.IN_USE):
        gpu.set_mixed_size(False)


def test_mixed_size_is_lost_when_vfs_change_or_at_a_reset() -> None:
    """behaviour §4, §7: enabling before the VFs is silently lost; a reset or a boot clears it."""
    gpu = gpu_of("A40")
    gpu.set_mixed_size(True)
    gpu.vfs_on = True
    gpu.driver_rebound()
    assert not gpu.sharing.mixed
    gpu.vfs_on = False
    gpu.set_mixed_size(True)
    gpu.reset()
    assert not gpu.sharing.mixed


@pytest.mark.parametrize(("board", "driver"), [("T4", "550.54.16"), ("A40", "535.161.05")])
def test_mixed_size_is_not_everywhere(board: str, driver: str) -> None:
    """behaviour §7: since vGPU 17 (R550), and not on boards without SR-IOV."""
    with refused(RmStatus.NOT_SUPPORTED):
        gpu_of(board, driver=driver).set_mixed_size(True)


def test_mixed_size_is_not_for_mig() -> None:
    """behaviour §7: N/A on MIG."""
    with refused(RmStatus.NOT_SUPPORTED):
        mig_gpu("A100-PCIE-40GB").set_mixed_size(True)


def test_fixed_share_and_mixed_size_exclude_each_other() -> None:
    """behaviour §7: best effort and equal share only, never fixed share."""
    gpu = gpu_of("A40")
    gpu.set_scheduler(Scheduler.FIXED_SHARE)
    with refused(RmStatus.NOT_SUPPORTED):
        gpu.set_mixed_size(True)
    gpu.set_scheduler(Scheduler.EQUAL_SHARE)
    gpu.set_mixed_size(True)
    with refused(RmStatus.NOT_SUPPORTED):
        gpu.set_scheduler(Scheduler.FIXED_SHARE)


def test_the_scheduler_is_not_changed_under_vgpus() -> None:
    """nvml.h, nvmlDeviceSetVgpuSchedulerState: NOT_SUPPORTED if any vGPU instance exists."""
    gpu = gpu_of("A40")
    make(gpu, "A40-8Q")
    with refused(RmStatus.NOT_SUPPORTED):
        gpu.set_scheduler(Scheduler.EQUAL_SHARE)


def test_the_scheduler_is_back_to_its_default_when_the_driver_is_rebound() -> None:
    """behaviour §9: set at run time it is not persistent."""
    gpu = gpu_of("A40")
    gpu.set_scheduler(Scheduler.EQUAL_SHARE)
    gpu.driver_rebound()
    assert gpu.sharing.policy is Scheduler.BEST_EFFORT


@pytest.mark.parametrize("holds", ["client", "vgpu", "vfs"])
def test_a_reset_wants_an_idle_gpu(holds: str) -> None:
    gpu = gpu_of("A40")
    gpu.vfs_on = holds == "vfs"
    if holds == "client":
        gpu.clients.add("dcgm")
    if holds == "vgpu":
        make(gpu, "A40-8Q")
    with oserror(errno.EBUSY):
        gpu.reset()


def test_ecc_waits_for_a_reset() -> None:
    """behaviour §9: pending until reset; not with M60."""
    gpu = gpu_of("A40")
    gpu.ecc.set(True)
    assert (gpu.ecc.enabled, gpu.ecc.pending) == (False, True)
    gpu.reset()
    assert gpu.ecc.enabled
    assert not gpu_of("M60").ecc.supported
    assert gpu_of("H100-SXM5-80GB").ecc.enabled


def test_an_xid_is_logged() -> None:
    """behaviour §15 and the catalogue's kernel_log_formats."""
    gpu = gpu_of("A40")
    gpu.xid(13)
    assert gpu.log == [
        "NVRM: Xid (PCI:0000:41:00): 13, pid='<unknown>', name=<unknown>, "
        "ROBUST_CHANNEL_GR_EXCEPTION"
    ]
    assert gpu.health.recovery is Recovery.NONE


def test_an_xid_may_want_a_reset() -> None:
    """behaviour §15: 119 resets the GPU."""
    gpu = gpu_of("A40")
    gpu.xid(119)
    assert gpu.health.recovery is Recovery.GPU_RESET
    gpu.xid(13)
    assert gpu.health.recovery is Recovery.GPU_RESET
    gpu.reset()
    assert gpu.health.recovery is Recovery.NONE


def test_xid_79_loses_the_gpu() -> None:
    """behaviour §15: fallen off the bus; a reset does not help, a host restart does."""
    gpu = gpu_of("A40")
    make(gpu, "A40-8Q")
    gpu.xid(79)
    assert gpu.lost
    assert gpu.log[-1].endswith("79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    assert not gpu.creatable("vf1")
    with oserror(errno.EIO):
        make(gpu, "A40-8Q")
    for attempt in (gpu.reset, lambda: gpu.start_vm(["vf0"], "vm"), lambda: gpu.place("vf0", 0)):
        with oserror(errno.ENODEV):
            attempt()


def test_a_card_is_the_same_at_every_boot_and_no_other() -> None:
    one, again, other = (gpu_of("A40", seed=each) for each in (1, 1, 2))
    assert (one.uuid, one.serial) == (again.uuid, again.serial)
    assert one.uuid != other.uuid
    assert one.serial != other.serial
