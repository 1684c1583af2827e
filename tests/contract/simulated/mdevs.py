"""Simulated benches for mediated devices."""

from __future__ import annotations

from tests.contract import mdev_cases, mdev_core_cases
from tests.contract.mdev_bench import MdevBench
from tests.contract.simulated.host import Run, SimMachine
from tests.contract.simulated.values import FIRST, turned_on
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimBoard, SimHost

MDEVS = SimHost(
    name="h1", boards=tuple(SimBoard(board=each) for each in ("T4", "A2", "mbochs", "mtty"))
)
ON_VF = "0000:43:00.4"


def mdev(parent: str, full: str, elsewhere: tuple[str, str], *types: str) -> Run[MdevBench]:
    def bench(reached: Host, machine: SimMachine) -> MdevBench:
        if parent == ON_VF:
            turned_on(reached, 16, "0000:43:00.0")
        type_id, other_type = types
        return MdevBench(
            host=reached,
            machine=machine,
            parent=parent,
            type_id=type_id,
            other_type=other_type,
            elsewhere=elsewhere,
            full=full,
            faults=machine,
        )

    name = {FIRST: "T4", ON_VF: "A2 VF"}.get(parent, parent)
    lists = (mdev_core_cases.CASES, mdev_cases.CASES)
    boots = () if parent == ON_VF else (mdev_cases.REBOOT_CASES,)
    return Run(name=name, host=MDEVS, bench=bench, lists=lists, boots=boots)


MDEV = (
    mdev(FIRST, "EIO", ("mbochs", "mbochs-small"), "nvidia-232", "nvidia-231"),
    mdev(ON_VF, "EIO", (FIRST, "nvidia-232"), "nvidia-746", "nvidia-747"),
    mdev("mbochs", "ENOSPC", ("mtty", "mtty-1"), "mbochs-large", "mbochs-small"),
    mdev("mtty", "ENOSPC", ("mbochs", "mbochs-small"), "mtty-2", "mtty-1"),
)
