"""Simulated benches for whole functions."""

from __future__ import annotations

from typing import Any

from tests.contract import passthrough_cases
from tests.contract.passthrough_cases import PassthroughBench
from tests.contract.simulated.host import Run, SimMachine
from tests.contract.simulated.values import FIRST, host
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import UNLISTED_PLAIN


def whole(board: str, *lists: Any) -> Run[PassthroughBench]:
    def bench(reached: Host, machine: SimMachine) -> PassthroughBench:
        return PassthroughBench(host=reached, machine=machine, faults=machine, gpu=FIRST)

    usual = (passthrough_cases.CASES, passthrough_cases.RESET_CASES)
    return Run(name=board, host=host(board), bench=bench, lists=(*usual, *lists))


WHOLE = (
    whole("H100-PCIE-80GB", passthrough_cases.CLIENT_CASES),
    whole("RTX-A6000", passthrough_cases.GROUP_CASES, passthrough_cases.CLIENT_CASES),
    whole("RTX8000P", passthrough_cases.GROUP_CASES),
    whole("ARC-PRO-B60"),
    whole(UNLISTED_PLAIN),
)
