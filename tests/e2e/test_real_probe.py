"""What changes the fingerprint of libvirt's files, on a real libvirtd and a simulated one alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import nshosts
from vgpumgr import domainxml
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.domain import Ownership, VolumePlan
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimFleet, SimHost
from vgpumgr.sim.in_process import InProcessHosts

XML = (
    "<domain type='qemu'><name>a</name><uuid>4b20d080-1b54-4048-85b3-a6a62d165c00</uuid>"
    "<memory unit='MiB'>{}</memory><vcpu>1</vcpu>"
    "<os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features></domain>"
)
NO_DISK = XML.replace(
    "<features>",
    "<devices><disk type='file'><source file='/absent.qcow2'/>"
    "<target dev='vda' bus='virtio'/></disk></devices><features>",
)
MARK = Ownership(fleet="f", vm="a", vm_id="v-1", generation=1, allocations=())
PLAN = VolumePlan(pool="default", name="v.qcow2", capacity_bytes=1 << 20, format="qcow2")

CHANGES: tuple[tuple[str, Callable[[Host], object]], ...] = (
    ("defined", lambda host: host.domains.define(XML.format(64))),
    ("defined again", lambda host: host.domains.define(XML.format(128))),
    ("marked to start", lambda host: host.domains.set_autostart("a", True)),
    ("not marked to start", lambda host: host.domains.set_autostart("a", False)),
    ("owned", lambda host: host.domains.set_ownership("a", MARK)),
    ("started", lambda host: host.domains.start("a")),
    ("owned otherwise", lambda host: host.domains.set_ownership("a", None)),
    ("destroyed", lambda host: host.domains.destroy("a")),
    ("undefined", lambda host: host.domains.undefine("a")),
    ("volume made", lambda host: host.storage.create("default", domainxml.volume(PLAN))),
    ("volume deleted", lambda host: host.storage.delete("default", "v.qcow2")),
)

# Refused, and nothing is written.
REFUSED: tuple[tuple[str, Callable[[Host], object]], ...] = (
    ("no domain", lambda host: host.domains.define("<domain type='qemu'/>")),
    ("no disk", lambda host: host.domains.start("a")),
    ("runs not", lambda host: host.domains.reboot("a")),
    ("not there", lambda host: host.domains.start("b")),
    ("no volume", lambda host: host.storage.create("default", "<volume/>")),
)


@pytest.fixture
def simulated() -> Iterator[Host]:
    hosts = InProcessHosts(SimFleet(name="f", hosts=(SimHost(name="h1"),)))
    yield hosts.open(HostRecord(name="h1", address="sim://h1"))
    hosts.close()


@pytest.fixture
def real() -> Iterator[Host]:
    if why := nshosts.missing():
        pytest.skip(why)
    fleet = nshosts.NamespaceFleet(1)
    hosts = RealHosts(ssh_config=fleet.ssh_config, identity=lambda: ("e2e", 1))
    [host] = fleet.hosts
    record = HostRecord(name=host.name, address=host.address("root"))
    record = real_hosts.pin_host_key(hosts, record, host.fingerprint, lambda _name, _key: None)
    found = hosts.open(record)
    found.installation.install()
    yield found
    hosts.close()
    fleet.close()


WORLDS = pytest.mark.parametrize(
    "which",
    ["simulated", pytest.param("real", marks=[pytest.mark.root, pytest.mark.libvirtd])],
)


@WORLDS
def test_each_change_is_seen_and_no_look_is_taken_for_one(
    which: str, request: pytest.FixtureRequest
) -> None:
    host: Host = request.getfixturevalue(which)
    before, facts = fingerprint(host), host.probe()
    for name, change in CHANGES:
        change(host)
        after = fingerprint(host)
        assert after != before, name
        looked(host)
        assert fingerprint(host) == after, f"looks after: {name}"
        before, seen = after, host.probe()
        assert seen is not facts, name
        facts = seen


@WORLDS
def test_a_refusal_is_no_change(which: str, request: pytest.FixtureRequest) -> None:
    host: Host = request.getfixturevalue(which)
    host.domains.define(NO_DISK.format(64))
    before = fingerprint(host)
    for name, act in REFUSED:
        with pytest.raises(VgpumgrError):
            act(host)
        assert fingerprint(host) == before, name


def fingerprint(host: Host) -> str:
    told: dict[str, Any] = host.helper.call("probe", {})
    found: str = told["digests"]["libvirt"]
    return found


def looked(host: Host) -> None:
    host.domains.list()
    host.domains.look("a")
    host.storage.pools()
    host.storage.volumes("default")
