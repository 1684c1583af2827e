"""Moves between simulated hosts: what refuses them, as libvirt, QEMU and the driver would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.simulated.values import FIRST, NEW, OLD
from tests.unit.sim.moving import (
    CLAIM,
    HERE,
    HOST,
    OWNER,
    RUNNING,
    SHUTOFF,
    THERE,
    Two,
    fleet,
    mdev,
    refused,
    started,
    to,
    with_vgpu,
)
from vgpumgr import domainxml
from vgpumgr.model.domain import DomainPlan, MdevHostdev, MigrationAddress, PciHostdev
from vgpumgr.model.errors import Conflict, HostUnreachable, InUse
from vgpumgr.model.sim_fleet import SimFleet
from vgpumgr.sim.in_process import InProcessHosts


@pytest.fixture
def two() -> Iterator[Two]:
    made = fleet()
    yield made
    made.hosts.close()


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
