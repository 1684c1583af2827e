"""The lab hosts for tests: enrolled by the command line, or reached through the ports.

``tests/lab/lab.sh test`` has set lab1 up and enrolled it before (tests/lab/fleet.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.lab import fleet
from tests.lab.labhost import ANSWER_S, CONNECT_S, LabHost, Vgpumgr
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host


@pytest.fixture(scope="session")
def lab() -> LabHost:
    """lab1, the host of most tests."""
    return LabHost.named("lab1")


@pytest.fixture(scope="session")
def lab2() -> LabHost:
    """Its neighbour."""
    return LabHost.named("lab2")


@pytest.fixture(scope="module")
def lab_host(lab: LabHost) -> Iterator[Host]:
    """lab1 through the ports."""
    real = RealHosts(
        ssh_config=fleet.FLEET / "ssh_config",
        own_key=fleet.FLEET / "state/keys/id_ed25519",
        identity=_identity,
        connect_timeout_s=CONNECT_S,
        call_timeout_s=ANSWER_S,
    )
    record = HostRecord(name=lab.name, address=lab.enrolled_address)
    yield real.open(real_hosts.pin_host_key(real, record, lab.fingerprint, _nobody_asks))
    real.close()


def _identity() -> tuple[str, int]:
    """The fleet's own: what it keeps on the host is then no stranger's to the cases."""
    with closing(
        sqlite3.connect(f"file:{fleet.FLEET}/state/ledger.sqlite?mode=ro", uri=True)
    ) as ledger:
        name, epoch = ledger.execute("SELECT fleet_id, epoch FROM meta").fetchone()
    return str(name), int(epoch)


def _nobody_asks(name: str, key: str) -> None:
    raise AssertionError(f"{name} showed {key}, which nobody pinned")


@pytest.fixture(scope="module")
def enrolled(
    lab: LabHost, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Vgpumgr, dict[str, Any]]:
    """The fleet of lab1 alone, without VMs, and the host's dump."""
    program = fleet.program(tmp_path_factory.mktemp("lab"))
    assert program.hosts() == {lab.name}, "set up by: make lab-test"
    program.delete_all()
    return program, lab.dump()


@pytest.fixture
def vgpumgr(lab: LabHost, enrolled: tuple[Vgpumgr, dict[str, Any]]) -> Iterator[Vgpumgr]:
    """The program; after each test all VMs are deleted, and the host is as before."""
    program, before = enrolled
    yield program
    program.delete_all()
    assert lab.settled(before) == before


@pytest.fixture(scope="module")
def both(enrolled: tuple[Vgpumgr, dict[str, Any]], lab2: LabHost) -> Iterator[Vgpumgr]:
    """The program with lab1 and lab2 in the fleet, for the tests of one module."""
    program, _ = enrolled
    fleet.set_up(program, lab2)
    yield program
    program.delete_all()
    program("host", "remove", lab2.name, "-y", "--forget")
