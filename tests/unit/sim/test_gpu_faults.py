"""``sim inject HOST gpu …``, and what the kernel shows of it (behaviour §14, §15)."""

from __future__ import annotations

import errno

import pytest

from tests.unit.sim.boards import (
    DRIVERS,
    FIRST,
    boot,
    driver,
    read,
    refused,
    sriov_manage,
    virtual,
    with_vfs,
    write,
)
from vgpumgr.model.errors import NotFound, UsageError
from vgpumgr.sim import injection
from vgpumgr.sim.machine import host_programs
from vgpumgr.sim.machine.kernel import Kernel

BUS = "00000000:41:00.0"


def inject(kernel: Kernel, *words: str) -> None:
    injection.inject_gpu(kernel, FIRST, words)


def test_a_lost_gpu_reads_all_ones() -> None:
    """§15: config space reads 0xff, Xid 79; its siblings and VFs with it."""
    kernel = with_vfs("RTX-A6000")
    inject(kernel, "lost")
    for address in (FIRST, "0000:41:00.1", virtual(kernel)[0]):
        assert set(read(kernel, address, "config")) == {"\ufffd"}
        refused(errno.ENOTTY, lambda address=address: write(kernel, address, "reset", "1"))  # type: ignore[misc]
    gpu = kernel.nvidia[FIRST]
    assert gpu.lost
    assert any("Xid (PCI:0000:41:00): 79" in line for line in gpu.log)
    injection.clear_gpus(kernel)
    assert not gpu.lost
    assert len(set(read(kernel, FIRST, "config"))) > 1


def test_an_xid_79_is_a_lost_gpu() -> None:
    kernel = boot("L40S")
    inject(kernel, "xid", "79")
    assert injection.gpu_words(kernel) == (f"gpu {FIRST} lost",)


def test_a_lost_gpu_of_any_vendor() -> None:
    kernel = boot("MI300X")
    inject(kernel, "lost")
    assert set(read(kernel, FIRST, "config")) == {"\ufffd"}
    with pytest.raises(UsageError, match="not on NVIDIA's driver"):
        inject(kernel, "xid", "48")


def test_a_client_is_seen_in_proc_and_holds_the_driver() -> None:
    """§14: monitoring agents hold /dev/nvidia0 and block unbind, sriov-manage, MIG changes."""
    kernel = boot("L40S", "L40S")
    second = kernel.gpus[1].address
    injection.inject_gpu(kernel, second, ["client", "dcgm-exporter"])
    injection.inject_gpu(kernel, second, ["client", "dcgm-exporter"])
    pids = [name for name in kernel.tree.names("/proc") if name.isdigit()]
    assert len(pids) == 1
    assert kernel.tree.read(f"/proc/{pids[0]}/comm") == "dcgm-exporter\n"
    assert kernel.tree.readlink(f"/proc/{pids[0]}/fd/3") == "/dev/nvidia1"
    information = kernel.tree.read(f"/proc/driver/nvidia/gpus/{second}/information")
    assert "Device Minor: \t 1" in information
    refused(errno.EBUSY, lambda: kernel.tree.write(f"{DRIVERS}/nvidia/unbind", second))
    injection.clear_gpus(kernel)
    kernel.tree.write(f"{DRIVERS}/nvidia/unbind", second)
    assert driver(kernel, second) is None


@pytest.mark.parametrize("bus", [BUS, FIRST, "0000:41:00.0".upper(), "0"])
def test_nvidia_smi_resets_one_gpu(bus: str) -> None:
    """§8, §15: a reset mends what asks for one."""
    kernel = boot("L40S")
    inject(kernel, "xid", "48")
    gpu = kernel.nvidia[FIRST]
    assert gpu.health.recovery
    status, output = host_programs.run(kernel, ["nvidia-smi", "--gpu-reset", "-i", bus])
    assert (status, output) == (0, f"GPU {BUS} was successfully reset.\nAll done.\n")
    assert not gpu.health.recovery


def test_a_reset_is_refused_with_clients_vfs_or_injected() -> None:
    kernel = boot("L40S")
    reset = ["nvidia-smi", "--gpu-reset", "-i", BUS]
    inject(kernel, "fail", "reset", "1")
    assert host_programs.run(kernel, reset)[0] == 255
    assert host_programs.run(kernel, reset)[0] == 0
    inject(kernel, "client", "python")
    status, output = host_programs.run(kernel, reset)
    assert status == 255
    assert f"GPU {BUS}: In use by another client" in output
    injection.clear_gpus(kernel)
    sriov_manage(kernel, "-e", FIRST)
    assert host_programs.run(kernel, reset)[0] == 255


def test_a_reset_of_no_or_a_lost_gpu() -> None:
    """§13: the exit status is NVML's code: 6 not found, 15 lost."""
    kernel = boot("L40S")
    assert (
        host_programs.run(kernel, ["nvidia-smi", "--gpu-reset", "-i", "00000000:99:00.0"])[0] == 6
    )
    assert host_programs.run(kernel, ["nvidia-smi", "-q"])[0] == 2
    inject(kernel, "lost")
    status, output = host_programs.run(kernel, ["nvidia-smi", "--gpu-reset", "-i", BUS])
    assert status == 15
    assert "GPU is lost" in output


def test_ecc_leaves_a_row_that_waits_for_a_reset() -> None:
    """§15: Xid 48 with 63; remapped rows pending."""
    kernel = boot("A100-PCIE-80GB")
    inject(kernel, "ecc")
    health = kernel.nvidia[FIRST].health
    assert (health.xids, health.rows.pending) == ([48, 63], True)


def test_what_is_wrong_is_told_in_the_words_of_inject() -> None:
    kernel = boot("L40S")
    for words in (["xid", "31"], ["client", "python"], ["fail", "unbind", "2"]):
        inject(kernel, *words)
    inject(kernel, "fail", "nvmlDeviceSetMigMode", "2")
    assert injection.gpu_words(kernel) == (
        f"gpu {FIRST} xid 31",
        f"gpu {FIRST} client python",
        f"gpu {FIRST} fail unbind 2",
        f"gpu {FIRST} fail nvmlDeviceSetMigMode 2",
    )
    injection.clear_gpus(kernel)
    assert injection.gpu_words(kernel) == ()


@pytest.mark.parametrize(
    "words",
    [[], ["burn"], ["xid"], ["xid", "x"], ["fail", "luck", "1"], ["fail", "reset", "0"]],
)
def test_a_fault_that_is_none_names_the_forms(words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        inject(boot("L40S"), *words)
    assert caught.value.next


def test_a_gpu_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound) as caught:
        injection.inject_gpu(boot("L40S"), "0000:99:00.0", ["lost"])
    assert FIRST in caught.value.next
