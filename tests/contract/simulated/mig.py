"""Simulated benches for MIG."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.contract import gpu_instance_cases, mig_backed_cases, mig_cases, shared_instance_cases
from tests.contract.gpu_instance_cases import GUIDE_ORDER
from tests.contract.mig_backed_bench import MigBackedBench
from tests.contract.mig_bench import MigBench
from tests.contract.shared_instance_cases import SharedInstanceBench
from tests.contract.simulated.host import Run, SimMachine
from tests.contract.simulated.values import A100, DC, FIRST, H100, RTX_PRO, host, number, total
from vgpumgr.model.ports import Host

ON_EIGHTHS: dict[str, Any] = {
    "small": "1g.10gb",
    "large": "3g.40gb",
    "whole": "7g.80gb",
    "media": "1g.10gb+me",
    "small_starts": (0, 1, 2, 3),
    "large_start": 4,
}
ON_QUARTERS: dict[str, Any] = {
    "small": "1g.24gb+gfx",
    "large": "2g.48gb+gfx",
    "whole": "4g.96gb+gfx",
    "media": "1g.24gb+me",
    "small_starts": (0, 3, 6, 9),
    "large_start": 6,
}


def mig_fields(board: str, reached: Host, machine: SimMachine) -> dict[str, Any]:
    return {
        "board": board,
        "host": reached,
        "machine": machine,
        "faults": machine,
        "nvml": machine.nvml,
        "pf": FIRST,
        "total": total(reached),
    }


def mig_backed(board: str, *profiles: str) -> Run[MigBackedBench]:
    """On a board with one vGPU per GPU instance."""

    def bench(reached: Host, machine: SimMachine) -> MigBackedBench:
        names = ("small_type", "large_type", "time_sliced")
        types: dict[str, Any] = {
            name: number(board, each) for name, each in zip(names, profiles, strict=True)
        }
        return MigBackedBench(**mig_fields(board, reached, machine), **ON_EIGHTHS, **types)

    return Run(name=board, host=host(board), bench=bench, lists=MIG_LISTS, boots=MIG_BOOTS)


def shared_instances() -> Run[SharedInstanceBench]:
    def bench(reached: Host, machine: SimMachine) -> SharedInstanceBench:
        types = {
            "small_type": "1-24Q",
            "large_type": "2-48Q",
            "time_sliced": "8Q",
            "half": "1-12Q",
            "half_sibling": "1-12A",
            "part": "1-8Q",
            "smallest": "1-2Q",
        }
        numbers = {name: number(RTX_PRO, f"{DC}-{each}") for name, each in types.items()}
        fields = {**mig_fields(RTX_PRO, reached, machine), **ON_QUARTERS, **numbers}
        return SharedInstanceBench(**fields, bare="1g.24gb")

    lists = (*MIG_LISTS, gpu_instance_cases.ALL_MEDIA_CASES, shared_instance_cases.CASES)
    return Run(name=RTX_PRO, host=host(RTX_PRO), bench=bench, lists=lists, boots=MIG_BOOTS)


CARDS = 10


def cards(board: str) -> Run[MigBench]:
    """Several GPUs of one board; the one that fills up as NVIDIA's guide shows is used."""

    def bench(reached: Host, machine: SimMachine) -> MigBench:
        fields = {**mig_fields(board, reached, machine), **ON_EIGHTHS}
        for name in ("small_starts", "large_start"):
            del fields[name]
        gpus = [each.device for each in reached.probe().gpus]
        found = (MigBench(**{**fields, "pf": pf}) for pf in gpus)
        guide = next(each for each in found if each.order(2) == GUIDE_ORDER[:2])
        return replace(guide, cards=tuple(pf for pf in gpus if pf != guide.pf))

    lists = (gpu_instance_cases.GUIDE_CARD_CASES, gpu_instance_cases.CARDS_CASES)
    return Run(name=f"{board} x{CARDS}", host=host(board, count=CARDS), bench=bench, lists=lists)


MIG_LISTS: tuple[Any, ...] = (
    mig_cases.CASES,
    mig_cases.FAULT_CASES,
    gpu_instance_cases.CASES,
    mig_backed_cases.CASES,
)
MIG_BOOTS: tuple[Any, ...] = (mig_cases.REBOOT_CASES, mig_backed_cases.REBOOT_CASES)
MIG = (
    mig_backed(A100, "A100D-1-10C", "A100D-3-40C", "A100D-8C"),
    mig_backed(H100, "H100-1-10C", "H100-3-40C", "H100-8C"),
    shared_instances(),
    cards(A100),
    cards("H100-SXM5-80GB"),
)
