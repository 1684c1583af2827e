"""A VM's screen through a ticket's door: real SSH, installed helper, real libvirt and QEMU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests import nshosts
from tests.e2e.support import until
from tests.vncviewer import Viewer
from vgpumgr import domainxml
from vgpumgr.app.console_proxy import LoopbackProxies
from vgpumgr.app.ticket_password import PasswordHalf
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.console_ticket import ConsoleKind
from vgpumgr.model.domain import DomainPlan, Ownership
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotPermitted
from vgpumgr.model.host import HostRecord, Versions
from vgpumgr.model.ports import Host

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]

FLEET, DESK = "contract", "desk"


@pytest.fixture(scope="module")
def fleet() -> Iterator[nshosts.NamespaceFleet]:
    if why := nshosts.missing():
        pytest.skip(why)
    made = nshosts.NamespaceFleet(1)
    yield made
    made.close()


@contextmanager
def reached(fleet: nshosts.NamespaceFleet, *, probe_only: bool = False) -> Iterator[Host]:
    where = fleet.hosts[0]
    real = RealHosts(ssh_config=fleet.ssh_config, identity=lambda: (FLEET, 1))
    record = HostRecord(name=where.name, address=where.address(), probe_only=probe_only)
    yield real.open(real_hosts.pin_host_key(real, record, where.fingerprint, _refuse))
    real.close()


@pytest.fixture(scope="module")
def host(fleet: nshosts.NamespaceFleet) -> Iterator[Host]:
    with reached(fleet) as found:
        found.installation.install()
        yield found


def _refuse(*_: object) -> bool:
    raise AssertionError("the key is given")


@contextmanager
def running(host: Host, *, graphics: bool = True) -> Iterator[None]:
    libvirt = host.probe().versions.libvirt
    plan = DomainPlan(
        name=DESK,
        uuid="4b20d080-1b54-4048-85b3-a6a62d165c01",
        ownership=Ownership(fleet=FLEET, vm=DESK, vm_id="vm-1", generation=1),
        vcpus=1,
        memory_mib=64,
        firmware="bios",
        accelerator="tcg",
        graphics=graphics,
        optional_devices=("agent",),
    )
    host.domains.define(domainxml.render(plan, Versions(libvirt=libvirt)))
    host.domains.start(DESK)
    try:
        yield
    finally:
        host.domains.destroy(DESK)
        host.domains.undefine(DESK)


def test_a_guest_without_an_agent_tells_nothing(host: Host) -> None:
    """Its channel is there, and nobody has opened it: libvirt says so at once."""
    with running(host):
        assert host.domains.guest(DESK) is None


def test_one_viewer_with_the_password_sees_the_screen_until_the_vm_is_off(
    host: Host, fleet: nshosts.NamespaceFleet
) -> None:
    def helpers() -> int:
        return sum(name.startswith("vgpumgr") for _, name in fleet.hosts[0].processes())

    mine = PasswordHalf()
    with running(host):
        with pytest.raises(Conflict, match="not ours"):
            host.console(DESK, "vm-2")
        with reached(fleet, probe_only=True) as only, pytest.raises(NotPermitted):
            only.console(DESK, "vm-1")
        LoopbackProxies(20.0).open(host.console(DESK, "vm-1"), mine.public).close()
        until(lambda: helpers() == 0, "no helper of a closed door is left")
        door = LoopbackProxies(20.0).open(host.console(DESK, "vm-1"), mine.public)
        with Viewer(door.address) as viewer:
            assert viewer.log_in(mine.password(door.answer)) == ""
            assert DESK in viewer.screen().name
            assert len(viewer.picture(8, 8)) >= 8 * 8 * 4  # QEMU sends the whole screen at first
            assert helpers() >= 1
            with Viewer(door.address) as late:
                assert late.ended()
            host.domains.destroy(DESK)
            assert viewer.ended()
    until(lambda: door.look().ended != "", "the door is closed")
    assert door.look().ended == "the console has ended"
    until(lambda: helpers() == 0, "no helper is left")


def test_one_reader_is_joined_to_the_serial_port(host: Host) -> None:
    with running(host):
        console = host.console(DESK, "vm-1", ConsoleKind.SERIAL)
        with pytest.raises(InUse):
            host.console(DESK, "vm-1", ConsoleKind.SERIAL)
        console.sendall(b"\r")  # no guest is there to answer
        host.domains.destroy(DESK)
        while console.recv(4096):  # what the firmware said
            pass
        console.close()
    with running(host):  # its pseudoterminal has the same number, most likely
        host.console(DESK, "vm-1", ConsoleKind.SERIAL).close()


def test_a_domain_that_is_off_or_has_no_console_is_refused(host: Host) -> None:
    with pytest.raises(HostRefused, match="does not run"):
        host.console(DESK, "vm-1")
    with running(host, graphics=False), pytest.raises(HostRefused, match="no VNC console"):
        host.console(DESK, "vm-1")
