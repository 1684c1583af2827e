"""The hosts that the cases without a device run on: simulated, over SSH, and local."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import nshosts
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host, Hosts
from vgpumgr.model.sim_fleet import SimFleet, SimHost
from vgpumgr.sim.in_process import InProcessHosts

REAL = (pytest.mark.root, pytest.mark.libvirtd)
IDENTITY = ("contract", 1)


@pytest.fixture(scope="module")
def namespace_host() -> Iterator[nshosts.NamespaceHost]:
    """One real host; the SSH cases and the local ones share it."""
    if why := nshosts.missing():
        pytest.skip(why)
    fleet = nshosts.NamespaceFleet(1)
    yield fleet.hosts[0]
    fleet.close()


@pytest.fixture(
    scope="module",
    params=["sim", pytest.param("ssh", marks=REAL), pytest.param("local", marks=REAL)],
)
def hosts(request: pytest.FixtureRequest) -> Iterator[tuple[Hosts, HostRecord]]:
    """A way of reaching hosts, and the record of one enrolled host."""
    if request.param == "sim":
        fleet = SimFleet(name="contract", hosts=(SimHost(name="h1"),))
        simulated = InProcessHosts(fleet, identity=lambda: IDENTITY)
        yield simulated, HostRecord(name="h1", address="sim://h1")
        simulated.close()
        return
    where: nshosts.NamespaceHost = request.getfixturevalue("namespace_host")
    real = RealHosts(
        ssh_config=where.ssh_config,
        identity=lambda: IDENTITY,
        local_prefix=where.enter,
        libvirt_sockets=(where.libvirt_socket,),
    )
    address = "local" if request.param == "local" else where.address()
    fingerprint = "" if request.param == "local" else where.fingerprint
    record = real_hosts.pin_host_key(
        real, HostRecord(name="h1", address=address), fingerprint, _refuse
    )
    real.open(record).installation.install()
    yield real, record
    real.open(record).helper.call("forget", {})
    real.open(record).installation.remove()
    real.close()


@pytest.fixture
def host(hosts: tuple[Hosts, HostRecord]) -> Iterator[Host]:
    """The host, left as it was found."""
    reached = hosts[0].open(hosts[1])
    yield reached
    for domain in reached.domains.list():
        reached.domains.destroy(domain.name)
        reached.domains.undefine(domain.name)
    for name in ("base", "disk", "seed"):
        reached.storage.delete("default", name)


def _refuse(name: str, key: str) -> None:
    raise AssertionError(f"{name} showed {key}, which nobody pinned")
