"""A VM with snapshots from one real host to another: its bytes are the same there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nshosts
from tests.contract.disk_bench import MIB, DiskBench
from tests.contract.test_contract_disks import QemuDisks
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ports import Hosts
from vgpumgr.model.vm_devices import DiskSpec

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]
NAMES = ("h0", "h1")


@pytest.fixture
def fleet() -> Iterator[nshosts.NamespaceFleet]:
    if why := nshosts.missing():
        pytest.skip(why)
    found = nshosts.NamespaceFleet(2)
    yield found
    found.close()


@pytest.fixture
def bench(fleet: nshosts.NamespaceFleet, tmp_path: Path) -> Iterator[DiskBench]:
    opened: list[RealHosts] = []

    def hosts(ledger: Ledger) -> tuple[Hosts, HostRecord]:
        identity = (ledger.fleet_id(), ledger.epoch())
        real = RealHosts(ssh_config=fleet.ssh_config, identity=lambda: identity)
        opened.append(real)
        records = [
            real_hosts.pin_host_key(
                real,
                HostRecord(name=each.name, address=each.address()),
                each.fingerprint,
                _refuse,
            )
            for each in fleet.hosts
        ]
        for each in records:
            real.open(each).installation.install()
        ledger.add_host(records[0])
        return real, records[1]

    made = DiskBench(tmp_path, hosts)
    yield made
    made.ledger.close()
    opened[0].close()


def _refuse(name: str, key: str) -> None:
    raise AssertionError(f"{name} showed {key}, which nobody pinned")


def test_snapshots_go_along_with_a_vm_that_is_off(
    fleet: nshosts.NamespaceFleet, bench: DiskBench
) -> None:
    def at(host: str) -> None:
        bench.at = host
        bench.disks = QemuDisks(fleet.hosts[NAMES.index(host)])

    bench.make(DiskSpec(size_bytes=2 * MIB), DiskSpec(size_bytes=2 * MIB))
    home = bench.vm().host
    other = next(name for name in NAMES if name != home)
    at(home)
    bench.stop()
    for value in (1, 2):
        bench.write(value)
        bench.engine.take_snapshot("a", f"s{value}").raise_for_failure()
    bench.write(3)
    before = bench.volumes()
    bench.engine.migrate("a", other).raise_for_failure()
    assert bench.volumes() == set()
    at(other)
    assert bench.volumes() == before and bench.read() == [3, 3]
    bench.engine.revert("a", "s1").raise_for_failure()
    assert bench.read() == [1, 1]
    bench.start()
    bench.stop()
    bench.engine.revert("a", "s2").raise_for_failure()
    bench.engine.delete_snapshot("a", "s1").raise_for_failure()
    assert bench.read() == [2, 2]
    bench.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    assert bench.volumes() == set()
