"""Large fleets boot and are probed at all; how fast is to be looked at: run with -s.

What is held is CPU time, a hundred times what it takes, so that work that grows with the square
of a fleet is noticed and a busy machine is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.unit.sim.boards import NEW, OLD
from vgpumgr.model.host import HostRecord, Versions
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.sim.machine import host_programs
from vgpumgr.sim.machine.host_programs import PATH

MIXED = (
    SimBoard(board="L40S", count=2),
    SimBoard(board="A16", count=4),
    SimBoard(board="A100-PCIE-80GB", count=2),
    SimBoard(board="MI300X", count=2, vfs=8),
    SimBoard(board="FLEX-170", count=2),
)
MOST_MS = 60_000.0


def took_ms(act: Callable[[], object]) -> float:
    begun = time.process_time()
    act()
    return (time.process_time() - begun) * 1000


def fleet(boards: tuple[SimBoard, ...], count: int, versions: Versions) -> InProcessHosts:
    made = tuple(
        SimHost(name=f"h{number}", boards=boards, versions=versions) for number in range(count)
    )
    return InProcessHosts(SimFleet(name="f", hosts=made), identity=lambda: ("f", 1))


def test_a_hundred_hosts_with_twelve_gpus_each_boot() -> None:
    boot = took_ms(lambda: fleet(MIXED, 100, NEW))
    print(f"\nboot of 100 hosts with 12 GPUs each: {boot:.0f} ms")
    assert boot < MOST_MS


@pytest.mark.parametrize("versions", [NEW, OLD], ids=["vendor", "mdev"])
def test_a_host_with_256_vfs_is_probed(versions: Versions) -> None:
    hosts = fleet((SimBoard(board="L40S", count=8),), 1, versions)
    host = hosts.open(HostRecord(name="h0", address="sim://h0"))
    kernel = hosts.fleet.hosts["h0"].kernel
    switch = took_ms(lambda: host_programs.run(kernel, [PATH, "-e", "ALL"]))
    first, second = (took_ms(lambda: host.helper.call("probe", {})) for _ in range(2))
    print(f"\n256 VFs on: {switch:.0f} ms; probes: {first:.0f} ms, then {second:.0f} ms")
    assert first < MOST_MS
