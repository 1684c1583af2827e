"""Fabric Manager in shared NVSwitch mode (fabric_partitions.yaml, behaviour §16)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.sim.boards import NEW, boot, host, refused
from vgpumgr.model.errors import UsageError
from vgpumgr.model.sim_fleet import SimBoard
from vgpumgr.sim.boards.hardware import hardware
from vgpumgr.sim.machine import host_programs
from vgpumgr.sim.machine.durable_texts import Durable
from vgpumgr.sim.machine.kernel import Kernel

H100 = SimBoard(board="H100-SXM5-80GB", count=8)
A100 = SimBoard(board="A100-SXM4-80GB", count=8)
IN_USE, UNINITIALIZED, BADPARAM, NOT_CONFIGURED = 0xF9, 0xFC, 0xFF, 0xF8


def fmpm(kernel: Kernel, *args: str) -> tuple[int, str]:
    return host_programs.run(kernel, ["fmpm", *args])


def listed(kernel: Kernel) -> dict[int, dict[str, Any]]:
    status, output = fmpm(kernel, "-l")
    assert status == 0
    found = json.loads(output)
    assert found["numPartitions"] == len(found["partitionInfo"])
    return {each["partitionId"]: each for each in found["partitionInfo"]}


@pytest.fixture
def kernel() -> Kernel:
    kernel = boot(H100, fabric="HGX-H100-8")
    kernel.clock.wait(30)
    return kernel


def test_after_boot_it_is_not_configured_for_a_while() -> None:
    """return_codes: FM_ST_NOT_CONFIGURED: still initialising; retry."""
    kernel = boot(H100, fabric="HGX-H100-8")
    assert fmpm(kernel, "-l") == (
        NOT_CONFIGURED,
        "Failed to get partition list. fmReturn: -8\n",
    )
    assert fmpm(kernel, "-a", "0")[0] == NOT_CONFIGURED
    kernel.clock.wait(5)
    assert len(listed(kernel)) == 15


def test_module_ids_do_not_follow_the_pci_order(kernel: Kernel) -> None:
    """h100_module_map_example; rule id-not-pci-order."""
    assert [gpu.module_id for gpu in kernel.nvidia.values()] == [5, 7, 6, 8, 1, 3, 2, 4]


def test_from_h100_on_the_list_names_module_ids_only(kernel: Kernel) -> None:
    """rule identity-h100: uuid empty, pciBusId 00000000:00:00.0."""
    gpus = listed(kernel)[3]["gpuInfo"]
    assert [gpu["physicalId"] for gpu in gpus] == [1, 3]
    assert {(gpu["uuid"], gpu["pciBusId"]) for gpu in gpus} == {("", "00000000:00:00.0")}
    assert gpus[0]["numNvLinksAvailable"] == gpus[0]["maxNumNvLinks"] == 18


def test_on_a100_uuid_and_address_tell() -> None:
    """rule identity-a100: the module id can differ from physicalId."""
    kernel = boot(A100, fabric="HGX-A100-8")
    kernel.clock.wait(30)
    by_uuid = {gpu.uuid: gpu for gpu in kernel.nvidia.values()}
    for each in listed(kernel)[1]["gpuInfo"]:
        gpu = by_uuid[each["uuid"]]
        assert each["pciBusId"].lower() == f"0000{gpu.address}"
        assert gpu.module_id != each["physicalId"]


def test_partitions_never_share_a_gpu(kernel: Kernel) -> None:
    """return_codes FM_ST_IN_USE, FM_ST_UNINITIALIZED, FM_ST_BADPARAM; rule disjoint."""
    assert fmpm(kernel, "-a", "3") == (0, "")
    assert fmpm(kernel, "-a", "3") == (IN_USE, "Failed to activate partition. fmReturn: -7\n")
    assert fmpm(kernel, "-a", "1")[0] == IN_USE
    assert fmpm(kernel, "-a", "2") == (0, "")
    assert {number for number, each in listed(kernel).items() if each["isActive"]} == {2, 3}
    assert fmpm(kernel, "-d", "4") == (
        UNINITIALIZED,
        "Failed to deactivate partition. fmReturn: -4\n",
    )
    assert fmpm(kernel, "-d", "3") == (0, "")
    assert fmpm(kernel, "-a", "15")[0] == BADPARAM
    assert fmpm(kernel, "-a", "64") == (BADPARAM, "Invalid Partition ID.\n")
    assert fmpm(kernel, "-q") == (BADPARAM, "Invalid argument.\n\n")


def test_gpus_are_in_progress_until_their_partition_is_active(kernel: Kernel) -> None:
    """fabric_modes, health_signs."""
    gpus = {gpu.module_id: gpu for gpu in kernel.nvidia.values()}
    assert {gpu.fabric_state for gpu in gpus.values()} == {"in-progress"}
    fmpm(kernel, "-a", "3")
    states = {number: gpu.fabric_state for number, gpu in gpus.items()}
    assert {number for number, state in states.items() if state == "completed"} == {1, 3}
    fmpm(kernel, "-d", "3")
    assert gpus[1].fabric_state == "in-progress"


def test_active_partitions_are_lost_at_reboot() -> None:
    durable = Durable("h1")
    before = boot(H100, fabric="HGX-H100-8", durable=durable)
    before.clock.wait(30)
    fmpm(before, "-a", "0")
    after = Kernel(host(H100, versions=NEW, fabric="HGX-H100-8"), durable)
    after.clock.wait(30)
    assert not any(each["isActive"] for each in listed(after).values())


def test_hosts_without_shared_mode_have_no_fmpm() -> None:
    refused(2, lambda: fmpm(boot(H100), "-l"))


def test_a_set_of_gpus_is_a_whole_partition_or_not(kernel: Kernel) -> None:
    """rule exact-set, rule single-too."""
    fabric, address = kernel.fabric, {g.module_id: g.address for g in kernel.nvidia.values()}
    assert fabric is not None
    assert fabric.is_whole([])
    assert not fabric.is_whole([address[1]])
    fmpm(kernel, "-a", "3")
    assert fabric.is_whole([address[3], address[1]])
    assert not fabric.is_whole([address[1]])
    assert not fabric.is_whole([address[1], address[3], address[5]])


def test_sixteen_a100s_sit_on_one_fabric() -> None:
    gpus = hardware(host(SimBoard(board="A100-SXM4-80GB", count=16), fabric="HGX-A100-16")).gpus
    assert sorted(gpu.physical_id or 0 for gpu in gpus) == list(range(1, 17))


@pytest.mark.parametrize(
    ("board", "fabric", "words"),
    [
        (H100, "HGX-X", "no NVSwitch board 'HGX-X'"),
        (SimBoard(board="H100-SXM5-80GB", count=4), "HGX-H100-8", "has 4 GPUs for HGX-H100-8"),
        (SimBoard(board="H100-PCIE-80GB", count=8), "HGX-H100-8", "has 0 GPUs for HGX-H100-8"),
    ],
)
def test_a_fabric_that_cannot_be(board: SimBoard, fabric: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        hardware(host(board, fabric=fabric))
