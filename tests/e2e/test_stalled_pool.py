"""A real pool whose server stops answering: it delays its own VMs alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nshosts, storage_servers
from tests.contract.disk_bench import FILES, HOST, NFS, DiskBench
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.errors import HostRefused, NoPlacement
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ports import Hosts

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]


@pytest.fixture
def server() -> Iterator[storage_servers.NfsServer]:
    if why := storage_servers.missing():
        pytest.skip(why)
    found = storage_servers.NfsServer()
    yield found
    found.close()


@pytest.fixture
def where(server: storage_servers.NfsServer) -> Iterator[nshosts.NamespaceHost]:
    fleet = nshosts.NamespaceFleet(1, prepare=server.prepare)
    server.mount(fleet.hosts[0])
    yield fleet.hosts[0]
    server.stall(fleet.hosts[0], on=False)
    fleet.close()


@pytest.fixture
def bench(where: nshosts.NamespaceHost, tmp_path: Path) -> Iterator[DiskBench]:
    opened: list[RealHosts] = []

    def hosts(ledger: Ledger) -> tuple[Hosts, HostRecord]:
        identity = (ledger.fleet_id(), ledger.epoch())
        real = RealHosts(
            ssh_config=where.ssh_config,
            identity=lambda: identity,
            local_prefix=where.enter,
            libvirt_sockets=(where.libvirt_socket,),
            call_timeout_s=5.0,
        )
        opened.append(real)
        record = HostRecord(name=HOST, address="local")
        real.open(record).installation.install()
        return real, record

    made = DiskBench(tmp_path, hosts)
    yield made
    made.ledger.close()
    opened[0].close()


def seconds(start: float) -> float:
    return time.monotonic() - start


def test_a_stalled_pool_delays_its_own_vms_alone(
    bench: DiskBench, where: nshosts.NamespaceHost, server: storage_servers.NfsServer
) -> None:
    bench.make(FILES.disk(4), name="local")
    bench.make(NFS.disk(4), name="far")
    server.stall(where, on=True)

    start = time.monotonic()
    bench.engine.refresh()
    assert seconds(start) < 5
    facts = bench.ledger.host(HOST).facts
    assert facts is not None
    assert (facts.stalled_pools, facts.unknown) == (("nas",), ())
    assert {pool.name: pool.active for pool in facts.pools} == {"default": True, "nas": False}

    with pytest.raises(NoPlacement, match="more") as caught:
        bench.make(NFS.disk(4), name="more")
    assert "storage pool nas of h1 does not answer" in caught.value.why
    with pytest.raises(HostRefused, match="storage pool nas on h1 does not answer"):
        bench.host.storage.look(*bench.vm("far").volumes[0])

    # libvirt itself hangs wherever it lists pools, once somebody has asked it for such a volume.
    where.run("sh", "-c", "timeout -s KILL 1 virsh -q pool-refresh nas || true")
    start = time.monotonic()
    bench.engine.refresh()
    bench.make(FILES.disk(4), name="other")
    bench.stop("other")
    bench.engine.delete(["other"], keep_disks=False, force=True).raise_for_failure()
    assert seconds(start) < 20
    assert bench.runs("far") and bench.runs("local")

    server.stall(where, on=False)
    bench.engine.refresh()
    facts = bench.ledger.host(HOST).facts
    assert facts is not None and facts.stalled_pools == ()
    bench.stop("far")
    bench.start("far")
    names = [each.name for each in bench.ledger.vms()]
    bench.engine.delete(names, keep_disks=False, force=True).raise_for_failure()
