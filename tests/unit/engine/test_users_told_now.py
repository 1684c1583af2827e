"""Users whom an operator cuts off all the same are told in their guests before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.poolsim import STAFF
from tests.simworld import SimWorld, host, vm
from tests.unit.engine.test_drain_desktops import Scene
from tests.unit.engine.test_rolling import fleet, larger, roll
from vgpumgr.engine.migration.user_messages import tell_now
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.model.errors import Conflict, NotFound, UsersAtWork, VgpumgrError
from vgpumgr.model.vm_devices import DiskMode, DiskSpec
from vgpumgr.sim.libvirt.guest_script import GuestScript

STOPPED = ("wall", "This desktop is stopped now, by its operator.")
ENDED = ("wall", "This session is ended now, by an operator.")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What guests were asked to run."""
    run: list[tuple[str, ...]] = []
    monkeypatch.setattr(GuestScript, "answer", lambda _, asked, *a, **k: run.append(tuple(asked)))
    return run


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    overlay = DiskSpec(mode=DiskMode.OVERLAY, image="d@1.qcow2")
    made = SimWorld(tmp_path, host("T4", images=("d@1.qcow2",)))
    made.engine.refresh()
    made.apply(vm("d-01", "T4-2Q", agent=True, disks=(overlay,)))
    yield made
    made.close()


def log_in(world: SimWorld, name: str, users: int) -> None:
    world.sim.inject(world.ledger.vm(name).host, ["guest", name, "users", str(users)])


def test_whose_session_an_operator_ends(tmp_path: Path, shown: list[tuple[str, ...]]) -> None:
    scene = Scene(tmp_path, agent=True)
    scene.sim.engine.release_desktop("cad", "ada", tell=True)
    assert shown == [ENDED]
    scene.sim.engine.assign_desktop("cad", "bob", STAFF)
    scene.sim.engine.release_desktop("cad", "bob")
    assert shown == [ENDED], "bob has done it, and knows"
    with pytest.raises(VgpumgrError):
        scene.sim.engine.release_desktop("cad", "eve", tell=True)
    assert shown == [ENDED]
    scene.sim.world.close()


@pytest.mark.parametrize(
    "cut",
    [
        lambda engine, **more: engine.rename("d-01", "e", stop=StopManner(), **more),
        lambda engine, **more: engine.revert("d-01", "s1", stop=StopManner(), **more),
    ],
)
def test_who_is_logged_in_where_a_vm_is_renamed_or_reverted(
    world: SimWorld, shown: list[tuple[str, ...]], cut: Callable[..., object]
) -> None:
    world.engine.take_snapshot("d-01", "s1")
    log_in(world, "d-01", 2)
    with pytest.raises(UsersAtWork, match="2 users on d-01") as caught:
        cut(world.engine)
    assert "--restart --with-users" in caught.value.next
    assert shown == []
    cut(world.engine, with_users=True)
    assert shown == [STOPPED]


def test_no_user_is_told_of_what_is_refused(world: SimWorld, shown: list[tuple[str, ...]]) -> None:
    log_in(world, "d-01", 2)
    with pytest.raises(NotFound):
        world.engine.revert("d-01", "s9", stop=StopManner(), with_users=True)
    with pytest.raises(Conflict):
        world.engine.rename("d-01", "d-01", stop=StopManner(), with_users=True)
    with pytest.raises(NotFound):
        world.engine.stop_vms(["d-01", "d-77"], force=True, timeout_s=1.0, with_users=True)
    with pytest.raises(NotFound):
        world.engine.reboot(["d-01", "d-77"], force=True, with_users=True)
    assert shown == []
    world.engine.stop_vms(["d-01"], force=True, timeout_s=1.0, with_users=True).raise_for_failure()
    assert shown == [STOPPED]


def test_who_is_logged_in_where_a_file_is_applied(
    world: SimWorld, shown: list[tuple[str, ...]]
) -> None:
    log_in(world, "d-01", 1)
    specs = [replace(world.ledger.vm("d-01").spec, memory_mib=1024)]
    world.engine.apply(specs, restart=True, with_users=True)[1].raise_for_failure()
    assert shown == [STOPPED]


def test_each_wave_is_told_when_it_begins(tmp_path: Path, shown: list[tuple[str, ...]]) -> None:
    made = fleet(tmp_path, agent=True)
    log_in(made, "d-01", 1)
    log_in(made, "d-05", 1)
    roll(made, larger(agent=True), with_users=True)[1].raise_for_failure()
    assert shown == [STOPPED, STOPPED]
    made.close()


def test_a_guest_without_users_and_one_without_an_agent_are_left_alone(
    tmp_path: Path, world: SimWorld, shown: list[tuple[str, ...]]
) -> None:
    assert tell_now(world.engine, ["d-01", "no-such"]) == ()
    assert tell_now(world.engine, []) == ()
    log_in(world, "d-01", 1)
    [told] = tell_now(world.engine, ["d-01"])
    assert (told.desktop, told.user) == ("d-01", "1 user")
    assert told.why == "its agent does not answer", "what could not be shown is said"
    assert shown == [STOPPED]
