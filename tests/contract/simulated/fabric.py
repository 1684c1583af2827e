"""Simulated benches for NVSwitch boards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.contract import (
    fabric_cases,
)
from tests.contract.fabric_cases import FabricBench
from tests.contract.simulated.host import Run, SimMachine
from tests.contract.simulated.values import host
from vgpumgr.model.ports import Host


def fabric(board: str, key: str, *lists: Any) -> Run[FabricBench]:
    def bench(reached: Host, machine: SimMachine) -> FabricBench:
        return FabricBench(host=reached, machine=machine, faults=machine)

    simulated = replace(host(board, count=8), fabric=key)
    usual, boots = (fabric_cases.CASES,), (fabric_cases.REBOOT_CASES,)
    return Run(name=key, host=simulated, bench=bench, lists=(*usual, *lists), boots=boots)


FABRIC = (
    fabric("H100-SXM5-80GB", "HGX-H100-8", fabric_cases.MODULE_ID_CASES),
    fabric("A100-SXM4-80GB", "HGX-A100-8"),
)
