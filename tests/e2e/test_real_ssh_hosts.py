"""``host add`` and ``host remove`` on a real host, whose helper is a program that can be gone.

The process dies: whatever was done there, the same command ends it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests import nshosts
from tests.property.test_engine_kill_points import Killed, Mortal
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.errors import Conflict, NotFound, NotPermitted
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.store import SqlLedger, open_ledger

pytestmark = [pytest.mark.root]

FOLDERS = ("/usr/local/lib/vgpumgr", "/var/lib/vgpumgr", "/etc/sudoers.d/vgpumgr")


@pytest.fixture(scope="module")
def host() -> Iterator[nshosts.NamespaceHost]:
    if why := nshosts.missing():
        pytest.skip(why)
    fleet = nshosts.NamespaceFleet(1, libvirtd=False)
    yield fleet.hosts[0]
    fleet.close()


class World:
    """One real host, a ledger, and an engine whose process may die."""

    def __init__(self, folder: Path, host: nshosts.NamespaceHost, user: str = "root") -> None:
        self.host, self._file = host, folder / "ledger.db"
        self.ledger = open_ledger(self._file)
        identity = (self.ledger.fleet_id(), self.ledger.epoch())
        self.hosts = RealHosts(ssh_config=host.ssh_config, identity=lambda: identity)
        record = HostRecord(name=host.name, address=host.address(user))
        self.record = real_hosts.pin_host_key(
            self.hosts, record, host.fingerprint, lambda _name, _key: None
        )

    def engine(self, ledger: SqlLedger | Mortal | None = None) -> Engine:
        return Engine(
            ledger=ledger or self.ledger,  # type: ignore[arg-type]
            hosts=self.hosts,
            lanes=SerialWorkers(),
            clock=SystemClock(),
            new_uuid=lambda: str(uuid.uuid4()),
        )

    def killed(self, command: Callable[[Engine], None], at: int) -> bool:
        """Just before the n-th durable write."""
        try:
            command(self.engine(Mortal(self.ledger, at, after=False)))
        except Killed:
            self.ledger.close()
            self.ledger = open_ledger(self._file)
            return True
        return False

    def add(self, engine: Engine) -> None:
        engine.enrol(self.record, install=True).raise_for_failure()

    def remove(self, engine: Engine) -> None:
        engine.remove_host(self.record.name).outcome.raise_for_failure()

    def left(self) -> list[str]:
        return [each for each in FOLDERS if self.host.path(each).exists()]

    def state(self) -> list[Membership]:
        assert not self.ledger.operations(open_only=True)
        return [each.membership for each in self.ledger.hosts()]

    def close(self) -> None:
        self.hosts.close()
        self.ledger.close()


def again(world: World, command: Callable[[Engine], None]) -> None:
    """Typed again; who has done it already is told so."""
    with suppress(Conflict, NotFound):
        command(world.engine())


@pytest.mark.parametrize("at", [3, 4])
def test_a_real_host_is_in_or_out_whatever_dies(
    host: nshosts.NamespaceHost, tmp_path: Path, at: int
) -> None:
    """The host has changed, and the journal does not say so yet."""
    world = World(tmp_path, host)
    assert world.killed(world.add, at)
    again(world, world.add)
    assert (world.state(), world.left()) == ([Membership.MEMBER], list(FOLDERS[:2]))
    assert world.killed(world.remove, at)
    again(world, world.remove)
    assert (world.state(), world.left()) == ([], [])
    world.close()


def test_who_may_not_install_leaves_no_trace(host: nshosts.NamespaceHost, tmp_path: Path) -> None:
    world = World(tmp_path, host, "gpuadm")
    with pytest.raises(NotPermitted, match="install"):
        world.add(world.engine())
    assert (world.state(), world.left()) == ([], [])
    world.close()


def test_a_helper_that_its_user_may_not_remove_is_removed_by_hand(
    host: nshosts.NamespaceHost, tmp_path: Path
) -> None:
    """As on a host that was set up by ``--bootstrap``: its user may run the helper, no more."""
    world = World(tmp_path, host, "gpuadm")
    rule = host.path("/etc/sudoers.d/setup")
    rule.write_text("gpuadm ALL=(root) NOPASSWD: ALL\n")
    world.add(world.engine())
    rule.unlink()
    with pytest.raises(NotPermitted) as refused:
        world.remove(world.engine())
    assert "rm -r /usr/local/lib/vgpumgr" in refused.value.next
    assert world.left() == [FOLDERS[0], FOLDERS[2]]
    assert [each.membership for each in world.ledger.hosts()] == [Membership.LEAVING]
    host.run("rm", "-r", FOLDERS[0], FOLDERS[2])
    world.remove(world.engine())
    assert (world.state(), world.left()) == ([], [])
    world.close()


def test_replacing_the_record_is_another_wish(host: nshosts.NamespaceHost, tmp_path: Path) -> None:
    world = World(tmp_path, host)
    assert world.killed(world.add, 3)
    world.record = replace(world.record, labels={"rack": "7"})
    with pytest.raises(Conflict, match="is joining the fleet"):
        world.add(world.engine())
    world.engine().undo(world.ledger.operations(open_only=True)[0].id)
    assert (world.state(), world.left()) == ([], [])
    world.close()
