"""Moves between simulated hosts: what refuses them, and what a client leaves that dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.simulated.values import FIRST, NEW, OLD
from tests.nshosts import poll
from vgpumgr import domainxml
from vgpumgr.model.codec import to_plain
from vgpumgr.model.domain import (
    DomainDisk,
    DomainPlan,
    DomainState,
    Hostdev,
    MdevHostdev,
    Ownership,
    PciHostdev,
    VolumePlan,
)
from vgpumgr.model.errors import (
    Conflict,
    HostRefused,
    HostUnreachable,
    InUse,
    NotFound,
    OutcomeUnknown,
)
from vgpumgr.model.host import HostRecord
from vgpumgr.model.migration import LiveMove, MigrationAddress, MoveProgress
from vgpumgr.model.ports import Host
from vgpumgr.model.simulated import SimBoard, SimFleet, SimHost
from vgpumgr.sim import control
from vgpumgr.sim.client import SimHosts
from vgpumgr.sim.fleet import Session
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


@pytest.fixture
def two() -> Iterator[Two]:
    made = fleet()
    yield made
    made.hosts.close()


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
    host.domains.define(domainxml.render(plan, NEW))
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


def test_a_vm_takes_its_memory_and_its_vgpu_with_it(two: Two) -> None:
    free = two.free_mib("h1")
    two.source.domains.migrate(with_vgpu(two), two.target)
    assert two.states() == (SHUTOFF, RUNNING)
    assert (two.free_mib("h1"), two.free_mib("h2")) == (free, free - 1024)
    assert (two.held("h1"), two.held("h2")) == ({}, {THERE: "vm"})
    vgpus = [each.kernel.nvidia[FIRST].vgpus for each in two.hosts.fleet.hosts.values()]
    assert [each.vm for (each,) in vgpus] == ["", "vm"]
    two.target.domains.destroy("vm")
    assert THERE in two.target.domains.xml("vm")


def test_a_moved_vm_outlives_the_power_of_its_new_host(two: Two) -> None:
    two.source.domains.migrate(with_vgpu(two), two.target)
    two.hosts.fleet.inject("h2", ["reboot"])
    assert two.states() == (SHUTOFF, SHUTOFF)


# -- what refuses


def test_a_device_another_vm_has(two: Two) -> None:
    move = with_vgpu(two)
    plan = DomainPlan(
        name="other",
        uuid="11111111-1111-4111-8111-222222222222",
        vcpus=1,
        memory_mib=512,
        accelerator="kvm",
        ownership=OWNER,
        hostdevs=(MdevHostdev(uuid=THERE),),
    )
    two.target.domains.define(domainxml.render(plan, NEW))
    two.target.domains.start("other")
    refused(two, move, "in use by driver QEMU, domain other", InUse)


def test_a_device_that_is_not_there(two: Two) -> None:
    started(two.source, mdev(two.source, HERE))
    refused(two, to(two.source, {HERE: THERE}), "not found")


def test_samples_that_do_not_move(two: Two) -> None:
    started(two.source, mdev(two.source, HERE, "mbochs", "mbochs-small"))
    mdev(two.target, THERE, "mbochs", "mbochs-small")
    move = to(two.source, {HERE: THERE})
    refused(two, move, f"cannot migrate domain: {HERE}: VFIO migration is not supported")


def test_whole_functions(two: Two) -> None:
    for host in (two.source, two.target):
        host.helper.call("vfio_bind", {"address": FIRST, "with": [], "claim": CLAIM})
    started(two.source, PciHostdev(address=FIRST))
    refused(two, to(two.source, {FIRST: FIRST}), "cannot migrate domain")


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        (replace(NEW, libvirt="8.5.0"), "type='mdev'"),
        (replace(NEW, qemu="8.0.5"), "not supported"),
        (replace(NEW, kernel="5.17.0"), "not supported"),
        (OLD, "not supported"),
    ],
)
def test_versions_of_the_source(versions: Any, words: str) -> None:
    hosts = (replace(HOST, versions=versions), replace(HOST, name="h2"))
    two = Two(InProcessHosts(SimFleet(name="f", hosts=hosts), identity=lambda: ("f", 1)))
    refused(two, with_vgpu(two), words)
    two.hosts.close()


@pytest.mark.parametrize(
    "versions",
    [
        replace(NEW, libvirt="8.5.0"),
        replace(NEW, qemu="8.0.5"),
        replace(NEW, driver="570.86.16"),
    ],
)
def test_versions_of_the_target(versions: Any) -> None:
    two = fleet(versions=versions)
    refused(two, with_vgpu(two), "vfio")
    two.hosts.close()


def test_another_board_or_type_or_ecc_mode(two: Two) -> None:
    started(two.source, mdev(two.source, HERE))
    mdev(two.target, THERE, kind="nvidia-231")
    refused(two, to(two.source, {HERE: THERE}), "load of migration failed")
    two.target.helper.call("mdev_remove", {"uuid": THERE, "claim": CLAIM})
    mdev(two.target, THERE)
    gpu = two.hosts.fleet.hosts["h2"].kernel.nvidia[FIRST]
    gpu.ecc.set(not gpu.ecc.enabled)
    gpu.ecc.settle()
    refused(two, to(two.source, {HERE: THERE}), "load of migration failed")


def test_tls_without_certificates() -> None:
    two = fleet(tls=False)
    started(two.source)
    refused(two, to(two.source), "Unable to access credentials")
    plain = MigrationAddress(address="h2", tls=False)
    two.source.domains.migrate(to(two.source, to=plain), two.target)
    assert two.states() == (SHUTOFF, RUNNING)
    two.hosts.close()


def test_a_cpu_of_another_kind() -> None:
    two = fleet(cpu_model="Intel(R) Xeon(R) Gold 6338")
    started(two.source)
    assert two.target.domains.cpu_fits(two.source.domains.live_xml("vm")) is None
    refused(two, to(two.source), "guest CPU doesn't match")
    two.hosts.close()


def test_named_cpu_models(two: Two) -> None:
    started(two.source)
    xml = two.source.domains.live_xml("vm").replace("host-passthrough", "custom")
    for model, fits in (("EPYC-Milan", True), ("qemu64", True), ("Skylake-Server", False)):
        named = xml.replace("<topology", f"<model>{model}</model><topology")
        assert two.target.domains.cpu_fits(named) is fits


def test_too_little_memory_on_the_target() -> None:
    two = fleet(memory_mib=512)
    started(two.source)
    refused(two, to(two.source), "Cannot allocate memory")
    two.hosts.close()


def test_a_name_or_an_address_of_somebody_else(two: Two) -> None:
    started(two.source)
    move = to(two.source)
    nowhere = replace(move, to=MigrationAddress(address="h3"))
    refused(two, nowhere, "unable to connect to server at 'h3:49152'")
    refused(two, replace(move, to=MigrationAddress(address="h1")), "unable to connect")
    other = domainxml.render(
        DomainPlan(
            name="vm",
            uuid="22222222-2222-4222-8222-222222222222",
            vcpus=1,
            memory_mib=512,
            accelerator="kvm",
            ownership=OWNER,
        ),
        NEW,
    )
    two.target.domains.define(other)
    refused(two, move, "already exists with uuid", Conflict)


@pytest.mark.parametrize(
    "change",
    [
        lambda xml: xml.replace("1048576", "2097152"),
        lambda xml: xml.replace("11111111-1111", "31111111-1111"),
        lambda xml: "<domain",
    ],
)
def test_another_guest_in_its_place(two: Two, change: Callable[[str], str]) -> None:
    started(two.source)
    move = to(two.source)
    refused(two, replace(move, live_xml=change(move.live_xml)), "")


def test_a_definition_that_the_target_does_not_take(two: Two) -> None:
    started(two.source)
    refused(two, to(two.source, persistent_xml="<domain/>"), "XML error")
    assert two.states() == (RUNNING, None)


def test_a_host_that_cannot_be_reached(two: Two) -> None:
    started(two.source)
    move = to(two.source)
    two.hosts.fleet.inject("h2", ["unreachable"])
    with pytest.raises(HostUnreachable):
        two.source.domains.migrate(move, two.target)
    two.hosts.fleet.inject("h2", ["clear"])
    assert two.states() == (RUNNING, None)


def test_a_mtty_that_took_part_in_a_failed_move_is_made_anew(two: Two) -> None:
    started(two.source, mdev(two.source, HERE, "mtty", "mtty-2"))
    mdev(two.target, THERE, "mtty", "mtty-1")
    move = to(two.source, {HERE: THERE})
    refused(two, move, "load of migration failed")
    refused(two, move, "Bad file descriptor")
    two.target.helper.call("mdev_remove", {"uuid": THERE, "claim": CLAIM})
    mdev(two.target, THERE, "mtty", "mtty-2")
    two.source.domains.migrate(move, two.target)
    assert two.states() == (SHUTOFF, RUNNING)


# -- a client that dies, and hosts that fail, in each phase


class Killed(BaseException):
    """The client is gone."""


def killed_after(monkeypatch: pytest.MonkeyPatch, method: str, times: int = 1) -> None:
    """Its last call is the ``times``-th of that method."""
    left, call = [times], Session.call

    def cut(self: Session, name: str, target: str, called: str, arguments: Any) -> Any:
        answer = call(self, name, target, called, arguments)
        left[0] -= called == method
        if not left[0]:
            raise Killed
        return answer

    monkeypatch.setattr(Session, "call", cut)


@pytest.mark.parametrize(
    ("method", "times", "states"),
    [
        ("begin", 1, (RUNNING, None)),
        ("prepare", 1, (RUNNING, None)),
        ("perform", 1, (RUNNING, None)),
        ("perform", 4, (PAUSED, None)),
        ("finish", 1, (PAUSED, RUNNING)),
        ("confirm", 1, (SHUTOFF, RUNNING)),
    ],
)
def test_a_client_that_dies_leaves_what_libvirt_leaves(
    two: Two, monkeypatch: pytest.MonkeyPatch, method: str, times: int, states: Any
) -> None:
    move = with_vgpu(two)
    killed_after(monkeypatch, method, times)
    with pytest.raises(Killed):
        two.source.domains.migrate(move, two.target)
    assert two.states() == states
    for host in (two.source, two.target):
        assert host.domains.migration_progress("vm") is None
    found = two.target.domains.look("vm")
    assert found is None or found.persistent
    assert (two.held("h1"), two.held("h2")) == (
        {HERE: "vm"} if states[0] is not SHUTOFF else {},
        {THERE: "vm"} if states[1] is RUNNING else {},
    )
    if states[0] is PAUSED:
        two.source.domains.resume("vm")
        assert two.states()[0] is RUNNING


def test_between_phases_both_hosts_show_it_and_the_source_is_locked(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    call = Session.call

    def looking(self: Session, name: str, target: str, method: str, arguments: Any) -> Any:
        answer = call(self, name, target, method, arguments)
        left = two.source.domains.migration_progress("vm")
        seen.append((method, *two.states(), left.left_bytes >> 20 if left else None))
        if method == "perform":
            for act in (two.source.domains.reboot, two.source.domains.shutdown):
                with pytest.raises(HostRefused) as caught:
                    act("vm")
                assert "cannot acquire state change lock" in caught.value.why
            assert two.target.domains.migration_progress("vm") == MoveProgress(
                total_bytes=0, left_bytes=0
            )
        return answer

    move = with_vgpu(two)
    monkeypatch.setattr(Session, "call", looking)
    two.source.domains.migrate(move, two.target)
    assert seen == [
        ("begin", RUNNING, None, 1024),
        ("prepare", RUNNING, PAUSED, 1024),
        ("perform", RUNNING, PAUSED, 768),
        ("perform", RUNNING, PAUSED, 512),
        ("perform", RUNNING, PAUSED, 256),
        ("perform", PAUSED, PAUSED, 0),
        ("finish", PAUSED, RUNNING, 0),
        ("confirm", SHUTOFF, RUNNING, None),
    ]


def on_first(monkeypatch: pytest.MonkeyPatch, method: str, act: Callable[[], None]) -> None:
    call = Session.call

    def acting(self: Session, name: str, target: str, called: str, arguments: Any) -> Any:
        answer = call(self, name, target, called, arguments)
        if called == method:
            monkeypatch.setattr(Session, "call", call)
            act()
        return answer

    monkeypatch.setattr(Session, "call", acting)


def test_a_move_that_is_cancelled_leaves_the_vm(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    move = with_vgpu(two)
    on_first(monkeypatch, "perform", lambda: two.source.domains.cancel_migration("vm"))
    refused(two, move, "canceled by client")
    assert two.states() == (RUNNING, None)


def test_a_vm_powered_off_in_the_middle_is_off(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    move = with_vgpu(two)
    on_first(monkeypatch, "perform", lambda: two.source.domains.destroy("vm"))
    with pytest.raises(HostRefused):
        two.source.domains.migrate(move, two.target)
    assert two.states() == (SHUTOFF, None)


def test_a_target_that_loses_power_in_the_middle(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    move = with_vgpu(two)
    on_first(monkeypatch, "perform", lambda: two.hosts.fleet.inject("h2", ["reboot"]))
    with pytest.raises(HostRefused):
        two.source.domains.migrate(move, two.target)
    assert two.states() == (RUNNING, None)


def test_a_source_that_loses_power_in_the_middle(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    move = with_vgpu(two)
    on_first(monkeypatch, "perform", lambda: two.hosts.fleet.inject("h1", ["reboot"]))
    with pytest.raises(HostRefused):
        two.source.domains.migrate(move, two.target)
    assert two.states() == (SHUTOFF, None)


@pytest.mark.parametrize(
    ("host", "kind", "states"),
    [("h2", HostRefused, (RUNNING, None)), ("h1", OutcomeUnknown, (RUNNING, None))],
)
def test_a_network_that_breaks_in_the_middle(
    two: Two, monkeypatch: pytest.MonkeyPatch, host: str, kind: type[Exception], states: Any
) -> None:
    move = with_vgpu(two)
    on_first(monkeypatch, "perform", lambda: two.hosts.fleet.inject(host, ["unreachable"]))
    with pytest.raises(kind):
        two.source.domains.migrate(move, two.target)
    two.hosts.fleet.inject(host, ["clear"])
    assert two.states() == states


@pytest.mark.parametrize("method", ["begin", "prepare", "perform", "finish"])
def test_each_phase_can_be_made_to_fail(two: Two, method: str) -> None:
    move = with_vgpu(two)
    name = "h1" if method in {"begin", "perform"} else "h2"
    two.hosts.fleet.inject(name, ["refuse", f"moves.{method}", "EIO", "1"])
    refused(two, move, "Input/output error")
    two.source.domains.migrate(move, two.target)
    assert two.states() == (SHUTOFF, RUNNING)


# -- disks


def volume(host: Host, **changes: Any) -> DomainDisk:
    plan = VolumePlan(pool="default", name="disk", capacity_bytes=1 << 20, format="raw")
    path = host.storage.create("default", domainxml.volume(replace(plan, **changes))).path
    return DomainDisk(path=path, format="raw", target="vda")


def digest(host: Host) -> object:
    path = "/var/lib/libvirt/images"
    return host.helper.call("file_digest", {"path": f"{path}/disk", "pool_path": path})


def test_a_disk_goes_along_with_its_data(two: Two) -> None:
    disk = volume(two.source)
    two.source.storage.upload("default", "disk", b"data")
    volume(two.target)
    started(two.source, disks=(disk,))
    two.source.domains.migrate(to(two.source, copied=("vda",)), two.target)
    assert digest(two.target) == digest(two.source)


def test_disks_that_cannot_go_along(two: Two) -> None:
    started(two.source, disks=(volume(two.source),))
    refused(two, to(two.source), "without shared storage is unsafe")
    refused(two, to(two.source, copied=("vdb",)), "disk vdb not found")
    refused(two, to(two.source, copied=("vda",)), "No such file")
    volume(two.target, capacity_bytes=2 << 20)
    refused(two, to(two.source, copied=("vda",)), "different sizes")


@pytest.mark.parametrize("kind", ["raw", "qcow2"])
def test_a_copied_file_is_the_same_after_a_power_cut(two: Two, kind: str) -> None:
    for host in (two.source, two.target):
        volume(host, format=kind)
    two.source.storage.upload("default", "disk", b"data")
    assert digest(two.source) != digest(two.target)
    heard: list[int] = []
    two.source.storage.copy_to("default", "disk", two.target, heard.append)
    two.hosts.fleet.inject("h2", ["reboot"])
    assert digest(two.source) == digest(two.target)
    assert heard == [digest(two.source)["bytes"]]  # type: ignore[index]


def test_a_copy_of_another_format_or_of_nothing(two: Two) -> None:
    volume(two.source)
    with pytest.raises(NotFound):
        two.source.storage.copy_to("default", "disk", two.target, print)
    volume(two.target, format="qcow2")
    with pytest.raises(HostRefused):
        two.source.storage.copy_to("default", "disk", two.target, print)
    assert "<name>disk</name>" in two.source.storage.xml("default", "disk")


def test_nothing_goes_to_another_fleet_or_a_real_host(two: Two) -> None:
    other = fleet()
    started(two.source)
    with pytest.raises(HostRefused, match="h2"):
        two.source.domains.migrate(to(two.source), other.target)
    real: Any = type("Real", (), {"name": "r1", "domains": None, "storage": None})()
    with pytest.raises(HostRefused, match="r1"):
        two.source.domains.migrate(to(two.source), real)
    with pytest.raises(HostRefused, match="r1"):
        two.source.storage.copy_to("default", "disk", real, print)
    other.hosts.close()


# -- over the socket


def test_over_the_socket_a_move_goes_through_and_a_client_may_go(tmp_path: Path) -> None:
    control.up(SimFleet(name="f", hosts=(HOST, replace(HOST, name="h2"))), tmp_path)
    hosts = SimHosts(tmp_path, identity=lambda: ("f", 1))
    source, target = (hosts.open(HostRecord(name=n, address=f"sim://{n}")) for n in ("h1", "h2"))
    try:
        started(source, mdev(source, HERE))
        mdev(target, THERE)
        move = to(source, {HERE: THERE})
        with hosts.session() as call:
            call("h1", "moves", "begin", {"move": to_plain(move)}, None)
            call("h2", "moves", "prepare", {"move": to_plain(move)}, None)
            assert source.domains.migration_progress("vm") == MoveProgress(
                total_bytes=1 << 30, left_bytes=1 << 30
            )
        poll(lambda: target.domains.look("vm") is None, "the receiver's end")
        source.domains.migrate(move, target)
        found = target.domains.look("vm")
        assert found is not None
        assert found.state is RUNNING
        for each in (source, target):
            volume(each)
        source.storage.upload("default", "disk", bytes(range(256)))
        source.storage.copy_to("default", "disk", target, lambda _: None)
        assert digest(source) == digest(target)
    finally:
        hosts.close()
        control.down(tmp_path)
