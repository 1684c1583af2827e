"""Pairs of simulated hosts between which VMs move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.contract.bench import Cases
from tests.contract.move_bench import Kind, Mdevs, MoveBench, TypedVfs
from tests.contract.move_cases import CASES, DEVICE_CASES, DISK_CASES, WHOLE_CASES
from tests.contract.simulated.values import FIRST, NEW, number, turned_on
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.sim.in_process import InProcessHosts

T4, A40 = FIRST, "0000:43:00.0"
BOARDS = tuple(SimBoard(board=each) for each in ("T4", "A40", "mtty"))
FLEET = SimFleet(
    name="contract",
    hosts=tuple(SimHost(name=name, boards=BOARDS, versions=NEW) for name in ("h1", "h2")),
)


@dataclass(frozen=True)
class Pair:
    """``vfs_of`` is a GPU whose VFs are turned on first, on both hosts."""

    name: str
    kind: Kind
    lists: tuple[Cases[MoveBench], ...]
    vfs_of: str = ""


@contextmanager
def bench(pair: Pair) -> Iterator[MoveBench]:
    hosts = InProcessHosts(FLEET, identity=lambda: ("c", 1))
    try:
        source, target = (opened(hosts, name) for name in ("h1", "h2"))
        for host in (source, target):
            if pair.vfs_of:
                turned_on(host, 32, pair.vfs_of)
        yield MoveBench(
            source=source,
            target=target,
            to=MigrationAddress(address="h2"),
            back=MigrationAddress(address="h1"),
            kind=pair.kind,
            whole=T4,
        )
    finally:
        hosts.close()


def opened(hosts: InProcessHosts, name: str) -> Host:
    return hosts.open(HostRecord(name=name, address=f"sim://{name}"))


PAIRS = (
    Pair("T4 mdev", Mdevs(T4, "nvidia-232"), (CASES, DEVICE_CASES, WHOLE_CASES, DISK_CASES)),
    Pair("mtty", Mdevs("mtty", "mtty-1"), (DEVICE_CASES,)),
    Pair("A40 VF", TypedVfs("0000:43:00.4", number("A40", "A40-8Q")), (DEVICE_CASES,), A40),
)
