"""Two simulated hosts and a VM that moves between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.contract.simulated.values import FIRST, NEW, OLD
from vgpumgr import domainxml
from vgpumgr.model.domain import (
    DomainDisk,
    DomainPlan,
    DomainState,
    Hostdev,
    LiveMove,
    MdevHostdev,
    MigrationAddress,
    Ownership,
    VolumePlan,
)
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.sim.in_process import InProcessHosts

OWNER = Ownership(fleet="f", vm="vm", vm_id="v", generation=1)
CLAIM = {"allocation": "a1", "generation": 1, "vm": "vm"}
HERE, THERE = "4b20d080-1b54-4048-85b3-a6a62d165c01", "4b20d080-1b54-4048-85b3-a6a62d165c02"
RUNNING, PAUSED, SHUTOFF = DomainState.RUNNING, DomainState.PAUSED, DomainState.SHUTOFF
BOARDS = tuple(SimBoard(board=each) for each in ("T4", "mtty", "mbochs"))
HOST = SimHost(name="h1", boards=BOARDS, versions=NEW, cpus=8, memory_mib=8192, numa_nodes=1)


@dataclass
class Two:
    """Two hosts, and the VM on the first."""

    hosts: InProcessHosts

    def host(self, name: str) -> Host:
        return self.hosts.open(HostRecord(name=name, address=f"sim://{name}"))

    @property
    def source(self) -> Host:
        return self.host("h1")

    @property
    def target(self) -> Host:
        return self.host("h2")

    def states(self) -> tuple[DomainState | None, DomainState | None]:
        """Of the VM, here and there; None: not there at all."""
        found = [each.domains.look("vm") for each in (self.source, self.target)]
        return tuple(None if each is None else each.state for each in found)  # type: ignore[return-value]

    def free_mib(self, name: str) -> int:
        return sum(each.free_mib for each in self.hosts.fleet.hosts[name].kernel.memory.nodes)

    def held(self, name: str) -> dict[str, str]:
        return self.hosts.fleet.hosts[name].kernel.held


def fleet(**target: Any) -> Two:
    hosts = (HOST, replace(HOST, name="h2", **target))
    return Two(InProcessHosts(SimFleet(name="f", hosts=hosts), identity=lambda: ("f", 1)))


def mdev(host: Host, uuid: str, parent: str = FIRST, kind: str = "nvidia-232") -> MdevHostdev:
    args = {"parent": parent, "type": kind, "uuid": uuid, "claim": CLAIM}
    host.helper.call("mdev_create", args)
    return MdevHostdev(uuid=uuid)


def started(host: Host, *devices: Hostdev, **fields: Any) -> None:
    defaults: dict[str, Any] = {"vcpus": 1, "memory_mib": 1024, "ownership": OWNER}
    plan = DomainPlan(
        name="vm",
        uuid="11111111-1111-4111-8111-111111111111",
        accelerator="kvm",
        firmware="bios",
        hostdevs=devices,
        **(defaults | fields),
    )
    host.domains.define(domainxml.render(plan, OLD))
    host.domains.start("vm")


def to(source: Host, devices: Mapping[str, str] | None = None, **changes: Any) -> LiveMove:
    live, kept = (
        domainxml.moved(xml, devices=devices or {}, files={}, ownership=OWNER)
        for xml in (source.domains.live_xml("vm"), source.domains.xml("vm"))
    )
    move = LiveMove(
        name="vm", live_xml=live, persistent_xml=kept, to=MigrationAddress(address="h2")
    )
    return replace(move, **changes)


def with_vgpu(two: Two) -> LiveMove:
    started(two.source, mdev(two.source, HERE))
    mdev(two.target, THERE)
    return to(two.source, {HERE: THERE})


def refused(two: Two, move: LiveMove, words: str, kind: type[Exception] = HostRefused) -> None:
    """It stays, running, and nothing of it is on the target."""
    before = two.free_mib("h2"), dict(two.held("h2"))
    with pytest.raises(kind) as caught:
        two.source.domains.migrate(move, two.target)
    assert words in str(getattr(caught.value, "why", "")), caught.value
    assert two.states()[0] is RUNNING
    assert (two.free_mib("h2"), two.held("h2")) == before
    assert two.source.domains.migration_progress("vm") is None
    two.source.domains.reboot("vm")  # nothing has it locked


def volume(host: Host, **changes: Any) -> DomainDisk:
    plan = VolumePlan(pool="default", name="disk", capacity_bytes=1 << 20, format="raw")
    path = host.storage.create("default", domainxml.volume(replace(plan, **changes))).path
    return DomainDisk(path=path, format="raw", target="vda")


def digest(host: Host) -> object:
    path = "/var/lib/libvirt/images"
    return host.helper.call("file_digest", {"path": f"{path}/disk", "pool_path": path})
