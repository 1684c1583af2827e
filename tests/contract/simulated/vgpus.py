"""Simulated benches for time-sliced vGPUs, in the three shapes."""

from __future__ import annotations

from typing import Any

from tests.contract import admission_cases, mig_cases, mixed_size_cases, vgpu_cases
from tests.contract.simulated.host import Run, SimMachine
from tests.contract.simulated.values import (
    DC,
    FIRST,
    OLD,
    R535,
    RTX_PRO,
    host,
    number,
    total,
    turned_on,
)
from tests.contract.vgpus import (
    Carriers,
    MdevsOnPf,
    MdevsOnVfs,
    MdevVgpuBench,
    TypedVfs,
    VfMdevBench,
    VgpuBench,
)
from vgpumgr import catalog
from vgpumgr.model.host import Versions
from vgpumgr.model.ports import Host

Profiles = tuple[str, str, str]


def vgpu_fields(
    board: str, reached: Host, machine: SimMachine, carriers: Carriers, profiles: Profiles
) -> dict[str, Any]:
    """``profiles`` are small, its sibling, and large."""
    small, sibling, large = (number(board, each) for each in profiles)
    found = catalog.board(board)
    assert found is not None
    return {
        "host": reached,
        "machine": machine,
        "faults": machine,
        "nvml": machine.nvml,
        "gpu": FIRST,
        "carriers": carriers,
        "small": small,
        "sibling": sibling,
        "large": large,
        "most_large": next(each.max_gpu for each in found.types if each.id == large),
    }


def on_pf(board: str, profiles: Profiles, *lists: Any) -> Run[MdevVgpuBench]:
    def bench(reached: Host, machine: SimMachine) -> MdevVgpuBench:
        carriers = MdevsOnPf(machine, FIRST)
        return MdevVgpuBench(**vgpu_fields(board, reached, machine, carriers, profiles))

    return Run(name=board, host=host(board), bench=bench, lists=lists)


def on_vf_mdevs(versions: Versions, lists: tuple[Any, ...], *boots: Any) -> Run[VfMdevBench]:
    def bench(reached: Host, machine: SimMachine) -> VfMdevBench:
        carriers = MdevsOnVfs(machine, turned_on(reached, 32))
        return VfMdevBench(**vgpu_fields("A40", reached, machine, carriers, A40_TYPES))

    branch = versions.driver.partition(".")[0]
    name = f"A40 mdevs R{branch}"
    return Run(name=name, host=host("A40", versions), bench=bench, lists=lists, boots=boots)


def on_typed_vfs(board: str, profiles: Profiles, *lists: Any) -> Run[VgpuBench]:
    def bench(reached: Host, machine: SimMachine) -> VgpuBench:
        carriers = TypedVfs(machine, turned_on(reached, total(reached)))
        return VgpuBench(**vgpu_fields(board, reached, machine, carriers, profiles))

    return Run(name=board, host=host(board), bench=bench, lists=lists)


ANY_VGPU = (vgpu_cases.CASES, admission_cases.CASES)
VF_VGPU = (*ANY_VGPU, vgpu_cases.VF_PLUGIN_CASES)
MDEV_VGPU = (*ANY_VGPU, vgpu_cases.MDEV_CASES, vgpu_cases.MDEV_PLUGIN_CASES)
WITHOUT_MIG = mig_cases.WITHOUT_CASES
A40_TYPES = ("A40-4Q", "A40-4C", "A40-8Q")
VGPU = (
    on_pf(
        "T4",
        ("T4-4Q", "T4-4A", "T4-8Q"),
        *(*MDEV_VGPU, vgpu_cases.PF_CASES, mixed_size_cases.WITHOUT_CASES, WITHOUT_MIG),
    ),
    on_pf("P40", ("P40-4Q", "P40-4A", "P40-8Q"), admission_cases.WHOLE_ONLY_CASES),
    on_vf_mdevs(OLD, (*MDEV_VGPU, vgpu_cases.VF_CASES), vgpu_cases.VF_REBOOT_CASES),
    on_vf_mdevs(R535, (admission_cases.ONE_TYPE_CASES,)),
    on_typed_vfs("A40", A40_TYPES, *VF_VGPU, WITHOUT_MIG),
    on_typed_vfs("L40S", ("L40S-4Q", "L40S-4A", "L40S-8Q"), *VF_VGPU),
    on_typed_vfs(
        RTX_PRO,
        (f"{DC}-3Q", f"{DC}-3A", f"{DC}-4Q"),
        *(admission_cases.CASES, admission_cases.MANY_CASES),
    ),
)
