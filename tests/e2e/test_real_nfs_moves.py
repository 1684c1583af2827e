"""A VM from one real host to another, whose disks lie on what both mount: none is copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nshosts, storage_servers
from tests.contract.disk_bench import NFS, DiskBench
from tests.contract.test_contract_disks import QemuDisks
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ports import Hosts

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]
NAMES = ("h0", "h1")


@pytest.fixture
def server() -> Iterator[storage_servers.NfsServer]:
    if why := storage_servers.missing():
        pytest.skip(why)
    found = storage_servers.NfsServer()
    yield found
    found.close()


@pytest.fixture
def fleet(server: storage_servers.NfsServer) -> Iterator[nshosts.NamespaceFleet]:
    found = nshosts.NamespaceFleet(2, prepare=server.prepare)
    yield found
    found.close()


def bench_of(fleet: nshosts.NamespaceFleet, folder: Path) -> Iterator[DiskBench]:
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

    made = DiskBench(folder, hosts, NFS)
    yield made
    made.ledger.close()
    opened[0].close()


def _refuse(name: str, key: str) -> None:
    raise AssertionError(f"{name} showed {key}, which nobody pinned")


@pytest.fixture
def bench(
    fleet: nshosts.NamespaceFleet, server: storage_servers.NfsServer, tmp_path: Path
) -> Iterator[DiskBench]:
    for each in fleet.hosts:
        server.mount(each)
    yield from bench_of(fleet, tmp_path)


def at(bench: DiskBench, fleet: nshosts.NamespaceFleet, host: str) -> None:
    bench.at = host
    bench.disks = QemuDisks(fleet.hosts[NAMES.index(host)])


def files(server: storage_servers.NfsServer) -> dict[str, tuple[int, int]]:
    """Inode and size of each: a copy would have another inode."""
    found = ((each.name, each.stat()) for each in server.export.iterdir())
    return {name: (stat.st_ino, stat.st_size) for name, stat in found}


def test_disks_and_snapshots_stay_where_both_hosts_mount_one_export(
    bench: DiskBench, fleet: nshosts.NamespaceFleet, server: storage_servers.NfsServer
) -> None:
    bench.make(*bench.two)
    home = bench.vm().host
    there = next(name for name in NAMES if name != home)
    at(bench, fleet, home)
    bench.stop()
    bench.write(7)
    bench.engine.take_snapshot("a", "s1").raise_for_failure()
    bench.write(8)
    before = files(server)
    bench.engine.migrate("a", there).raise_for_failure()
    assert bench.vm().host == there and files(server) == before
    at(bench, fleet, there)
    assert bench.read() == [8, 8]
    bench.start()
    bench.stop()
    bench.engine.revert("a", "s1").raise_for_failure()
    assert bench.read() == [7, 7]
    bench.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    assert files(server) == {}


def test_one_export_under_two_names_is_left_alone(
    fleet: nshosts.NamespaceFleet, server: storage_servers.NfsServer, tmp_path: Path
) -> None:
    server.mount(fleet.hosts[0])
    server.mount(fleet.hosts[1], called="nas")
    for bench in bench_of(fleet, tmp_path):
        bench.make(*bench.two)
        home = bench.vm().host
        there = next(name for name in NAMES if name != home)
        bench.at = home
        bench.stop()
        before = files(server)
        with pytest.raises(Conflict) as caught:
            bench.engine.migrate("a", there)
        assert "may be the same storage under another name" in caught.value.why
        assert files(server) == before
        bench.start()
        bench.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
