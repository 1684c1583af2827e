"""Simulated benches for PFs and their VFs."""

from __future__ import annotations

from typing import Any

from tests.contract import plain_vf_cases, sriov_cases, vendor_vf_cases
from tests.contract.plain_vf_cases import PlainVfBench
from tests.contract.simulated.host import Run, SimMachine
from tests.contract.simulated.values import FIRST, RTX_PRO, host, number, total, turned_on
from tests.contract.sriov_cases import SriovBench
from tests.contract.vendor_vf_bench import VendorVfBench
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import UNLISTED_PLAIN, UNLISTED_VGPU


def sriov(board: str, count: int, *lists: Any) -> Run[SriovBench]:
    def bench(reached: Host, machine: SimMachine) -> SriovBench:
        most = total(reached)
        return SriovBench(
            host=reached,
            machine=machine,
            faults=machine,
            pf=FIRST,
            total=most,
            count=count or most,
        )

    usual, boots = (sriov_cases.CASES,), (sriov_cases.REBOOT_CASES,)
    return Run(name=board, host=host(board), bench=bench, lists=(*usual, *lists), boots=boots)


def vendor_vf(board: str, *types: int) -> Run[VendorVfBench]:
    def bench(reached: Host, machine: SimMachine) -> VendorVfBench:
        type_id, other_type, full = types
        return VendorVfBench(
            host=reached,
            machine=machine,
            faults=machine,
            pf=FIRST,
            vfs=turned_on(reached, total(reached))[:4],
            type_id=type_id,
            other_type=other_type,
            full=full,
        )

    lists, boots = (vendor_vf_cases.CASES,), (vendor_vf_cases.REBOOT_CASES,)
    return Run(name=f"{board} VF", host=host(board), bench=bench, lists=lists, boots=boots)


def plain_vf(
    board: str, count: int, lists: tuple[Any, ...], boots: tuple[Any, ...], **fields: Any
) -> Run[PlainVfBench]:
    def bench(reached: Host, machine: SimMachine) -> PlainVfBench:
        vfs = turned_on(reached, count)
        return PlainVfBench(host=reached, machine=machine, faults=machine, pf=FIRST, vfs=vfs)

    lists = (plain_vf_cases.CASES, *lists)
    return Run(
        name=f"{board} VF", host=host(board, **fields), bench=bench, lists=lists, boots=boots
    )


NVIDIA_PF = (sriov_cases.NVIDIA_CASES, sriov_cases.NVIDIA_FAULT_CASES)
COUNTED = ((plain_vf_cases.NUMVFS_CASES,), (plain_vf_cases.NUMVFS_REBOOT_CASES,))
GIM = ((plain_vf_cases.GIM_CASES,), (plain_vf_cases.GIM_REBOOT_CASES,))
VFS = (
    sriov("A40", 0, *NVIDIA_PF),
    sriov(RTX_PRO, 0, *NVIDIA_PF),
    sriov("FLEX-170", 4, sriov_cases.NUMVFS_CASES),
    sriov("ARC-PRO-B60", 4, sriov_cases.NUMVFS_CASES),
    sriov(UNLISTED_PLAIN, 4, sriov_cases.NUMVFS_CASES),
    sriov(UNLISTED_VGPU, 4, sriov_cases.NUMVFS_CASES),
    vendor_vf("L40S", *(number("L40S", f"L40S-{each}Q") for each in (4, 8, 48))),
    vendor_vf("A40", *(number("A40", f"A40-{each}Q") for each in (4, 8, 48))),
    vendor_vf(UNLISTED_VGPU, 802, 803, 805),
    plain_vf("FLEX-170", 4, *COUNTED),
    plain_vf("ARC-PRO-B60", 4, *COUNTED),
    plain_vf(UNLISTED_PLAIN, 4, *COUNTED),
    plain_vf("MI300X", 8, *GIM, vfs=8),
)
