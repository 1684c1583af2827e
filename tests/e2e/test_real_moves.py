"""Live migration and volume copies between two real libvirts: the contract's cases, and deaths."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import libvirt
import pytest

from tests import nshosts
from tests.certificates import Authority
from tests.contract.bench import Case
from tests.contract.move_bench import VM, MoveBench
from tests.contract.move_cases import CASES, DISK_CASES
from vgpumgr import domainxml
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.domain import (
    DomainPlan,
    DomainState,
    Hostdev,
    MdevHostdev,
    MigrationAddress,
    NumaSeat,
    NumaShare,
    Ownership,
    PciHostdev,
)
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.host import HostRecord, Versions

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]
PKI = "/etc/libvirt/pki"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nshosts.NamespaceFleet]:
    if why := nshosts.missing():
        pytest.skip(why)
    found = nshosts.NamespaceFleet(2)
    authority = Authority(tmp_path_factory.mktemp("ca"))
    for host in found.hosts:
        authority.issue(f"DNS:{host.name}.test", host.path(PKI))
    yield found
    found.close()


@pytest.fixture(scope="module")
def bench(fleet: nshosts.NamespaceFleet) -> Iterator[MoveBench]:
    first, second = fleet.hosts
    real = RealHosts(ssh_config=fleet.ssh_config, identity=lambda: ("contract", 1))
    records = [HostRecord(name=each.name, address=each.address()) for each in fleet.hosts]
    pinned = [
        real_hosts.pin_host_key(real, record, where.fingerprint, _refuse)
        for record, where in zip(records, fleet.hosts, strict=True)
    ]
    for each in pinned:
        real.open(each).installation.install()
    yield MoveBench(
        source=real.open(pinned[0]),
        target=real.open(pinned[1]),
        to=address(second),
        back=address(first),
    )
    real.close()


def address(host: nshosts.NamespaceHost) -> MigrationAddress:
    return MigrationAddress(address=host.ip, tls=True, tls_name=f"{host.name}.test")


def cases() -> list[Any]:
    return [pytest.param(each, id=each.__name__) for each in (*CASES, *DISK_CASES)]


@pytest.mark.parametrize("case", cases())
def test_two_real_hosts_with_tls(bench: MoveBench, case: Case[MoveBench]) -> None:
    case(bench)


def test_without_certificates_tls_is_refused_and_plain_goes(
    fleet: nshosts.NamespaceFleet, bench: MoveBench
) -> None:
    pki = fleet.hosts[1].path(PKI)
    (pki / "ca-cert.pem").rename(pki / "away.pem")
    try:
        with bench.running():
            with pytest.raises(HostRefused, match="keeps running where it is") as caught:
                bench.move({})
            assert "Unable to access credentials" in caught.value.why
            bench.move({}, change=lambda move: replace(move, to=replace(move.to, tls=False)))
            assert bench.seen(bench.target).state is DomainState.RUNNING
    finally:
        (pki / "away.pem").rename(pki / "ca-cert.pem")


# -- what libvirt compares: asked by a saved guest's image, whose XML is held to the same check

UUIDS = ("4b20d080-1b54-4048-85b3-a6a62d165c01", "4b20d080-1b54-4048-85b3-a6a62d165c02")
VF, OTHER_VF = "0000:41:00.4", "0001:c1:02.7"
OWNER = Ownership(fleet="contract", vm=VM, vm_id=VM, generation=1)
IMAGE = "/var/lib/libvirt/images/saved"


def save_image(xml: str) -> bytes:
    """A saved guest without the guest (libvirt qemu_saveimage.h), with room for longer XML."""
    body = xml.encode().ljust(len(xml) + 4096, b"\0")
    return struct.pack("=16s19I", b"LibvirtQemudSave", 2, len(body), 1, *[0] * 16) + body


ONE_NODE = NumaSeat(shares=(NumaShare(node=0, cpus=(0, 1)),), strict=True)
TWO_CELLS = NumaSeat(
    shares=(
        NumaShare(node=0, cpus=(0,), vcpus=(0,), memory_mib=32),
        NumaShare(node=0, cpus=(1,), vcpus=(1,), memory_mib=32),
    )
)


def complaint(
    host: nshosts.NamespaceHost,
    hostdevs: tuple[Hostdev, ...],
    was: NumaSeat = ONE_NODE,
    **moved: Any,
) -> str:
    """What libvirt says of the moved XML in place of the original; nothing when it takes it."""
    plan = DomainPlan(
        name=VM,
        uuid="11111111-1111-4111-8111-111111111111",
        vcpus=2,
        memory_mib=64,
        accelerator="tcg",
        firmware="bios",
        cpus=(0, 1),
        seat=was,
        hostdevs=hostdevs,
        ownership=OWNER,
    )
    connection = libvirt.open(f"qemu+unix:///system?socket={host.libvirt_socket}")
    domain = connection.defineXML(domainxml.render(plan, Versions(libvirt="9.0.0")))
    xml = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    domain.undefine()
    host.path(IMAGE).write_bytes(save_image(xml))
    owner = replace(OWNER, generation=2)
    try:
        connection.saveImageDefineXML(
            IMAGE, domainxml.moved(xml, files={}, ownership=owner, **moved)
        )
    except libvirt.libvirtError as error:
        return str(error)
    finally:
        connection.close()
    return ""


def test_libvirt_takes_other_devices_and_other_pinning_for_the_same_guest(
    fleet: nshosts.NamespaceFleet,
) -> None:
    host = fleet.hosts[0]
    mdev, vf = (MdevHostdev(uuid=UUIDS[0]),), (PciHostdev(address=VF),)
    assert complaint(host, mdev, devices=dict([UUIDS])) == ""
    assert complaint(host, mdev, devices=dict([UUIDS]), cpus=(1, 0), seat=ONE_NODE) == ""
    there = NumaSeat(shares=(NumaShare(node=0, cpus=(1,)),))
    assert complaint(host, mdev, devices=dict([UUIDS]), seat=there) == ""
    for seat in (None, TWO_CELLS, there):
        assert complaint(host, mdev, TWO_CELLS, devices=dict([UUIDS]), seat=seat) == ""
    assert complaint(host, vf, devices={VF: OTHER_VF}) == ""
    if libvirt.getVersion() < 11_000_000:
        said = complaint(host, mdev, devices={UUIDS[0]: VF})
        assert "Target host device subsystem pci does not match source mdev" in said


# -- a client that dies: what virt/live_migration.py says of each phase

CLIENT = """
import sys
from vgpumgr import domainxml, virt
from vgpumgr.model.domain import Ownership
from vgpumgr.model.domain import LiveMove, MigrationAddress

name, source, target, address = sys.argv[1:]
here, there = (virt.open_uri(f"qemu+unix:///system?socket={each}") for each in (source, target))
owner = Ownership(fleet="contract", vm=name, vm_id=name, generation=2)
live, kept = (
    domainxml.moved(xml, devices={}, files={}, ownership=owner)
    for xml in (here.domains.live_xml(name), here.domains.xml(name))
)
to = MigrationAddress(address=address, tls=False, bandwidth_mib_s=12)
here.domains.migrate(
    LiveMove(name=name, live_xml=live, persistent_xml=kept, to=to, copied=("vda",)), there.domains
)
"""


@pytest.fixture
def slow_vm(bench: MoveBench) -> Iterator[None]:
    """It takes a second or two to move: its disk holds something."""
    with bench.volumes("raw") as disk:
        bench.source.storage.upload("default", disk.name, os.urandom(disk.capacity_bytes))
        with bench.running(disk=disk):
            yield


@contextmanager
def moving(fleet: nshosts.NamespaceFleet, bench: MoveBench) -> Iterator[subprocess.Popen[bytes]]:
    """A client in the middle of a move."""
    sockets = [str(each.libvirt_socket) for each in fleet.hosts]
    argv = [sys.executable, "-c", CLIENT, VM, *sockets, fleet.hosts[1].ip]
    with subprocess.Popen(argv) as client:
        nshosts.poll(lambda: begun(bench) or client.poll() is not None, "the move to begin")
        try:
            yield client
        finally:
            client.kill()


def begun(bench: MoveBench) -> bool:
    seen = bench.source.domains.migration_progress(VM)
    return seen is not None and seen.total_bytes > 0


def is_paused(bench: MoveBench) -> bool:
    return bench.seen(bench.source).state is DomainState.PAUSED


@pytest.mark.usefixtures("slow_vm")
def test_a_client_killed_in_the_middle_leaves_the_vm_running_where_it_was(
    fleet: nshosts.NamespaceFleet, bench: MoveBench
) -> None:
    with moving(fleet, bench) as client:
        receiver = bench.seen(bench.target)
        assert (receiver.state, receiver.persistent) == (DomainState.PAUSED, False)
        assert bench.target.domains.migration_progress(VM) is not None
        client.kill()
        client.wait()
        nshosts.poll(lambda: bench.source.domains.migration_progress(VM) is None, "its end")
        nshosts.poll(lambda: bench.target.domains.look(VM) is None, "the receiver's end")
    assert bench.seen(bench.source).state is DomainState.RUNNING


@pytest.mark.usefixtures("slow_vm")
def test_a_client_killed_before_the_target_finished_leaves_a_paused_source(
    fleet: nshosts.NamespaceFleet, bench: MoveBench
) -> None:
    target = fleet.hosts[1]
    with moving(fleet, bench) as client:
        target.signal_libvirtd(signal.SIGSTOP)
        nshosts.poll(lambda: is_paused(bench), "the guest to have gone over")
        client.kill()
        client.wait()
    target.signal_libvirtd(signal.SIGKILL)
    target.run("rm", "/run/libvirtd.pid", "/run/libvirt/libvirt-sock")
    target.start_libvirtd()
    nshosts.poll(lambda: bench.target.domains.look(VM) is None, "the target to drop what came")
    assert is_paused(bench)
    bench.source.domains.resume(VM)
    assert bench.seen(bench.source).state is DomainState.RUNNING


@pytest.mark.usefixtures("slow_vm")
def test_a_target_that_hung_finishes_for_a_dead_client_or_drops_the_move(
    fleet: nshosts.NamespaceFleet, bench: MoveBench
) -> None:
    """By whether the client's last words had reached its socket. Never do both run."""
    with moving(fleet, bench) as client:
        fleet.hosts[1].signal_libvirtd(signal.SIGSTOP)
        nshosts.poll(lambda: is_paused(bench), "the guest to have gone over")
        client.kill()
        client.wait()
        fleet.hosts[1].signal_libvirtd(signal.SIGCONT)
        nshosts.poll(lambda: settled(bench), "both to let go of the move")
    found = bench.target.domains.look(VM)
    if found is None:
        bench.source.domains.resume(VM)
    else:
        assert (found.state, found.persistent) == (DomainState.RUNNING, True)
        assert is_paused(bench)
        bench.source.domains.destroy(VM)


def settled(bench: MoveBench) -> bool:
    """No receiver waits at the target any more, no job is left."""
    found = bench.target.domains.look(VM)
    hosts = (bench.source, bench.target)
    idle = all(each.domains.migration_progress(VM) is None for each in hosts)
    return idle and (found is None or found.state is DomainState.RUNNING)


def _refuse(name: str, key: str) -> None:
    raise AssertionError(f"{name} showed {key}, which nobody pinned")
