"""Desktops of a host that is drained: users log off in peace, to a deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.poolsim import TwoHosts, spec
from vgpumgr.engine.controller.controller_events import EventKind
from vgpumgr.engine.hosts.host_drain import DrainRequest
from vgpumgr.engine.pools.session_activity import heartbeat
from vgpumgr.model.pool import PoolKind, Timeouts
from vgpumgr.sim.libvirt.guest_script import GuestScript

HOUR = 3600.0


class Scene(TwoHosts):
    """VMs that run can move from host to host."""

    def __init__(
        self, folder: Path, kind: PoolKind = PoolKind.FLOATING, *, agent: bool = False
    ) -> None:
        pool = spec(kind=kind)
        super().__init__(folder, replace(pool, desktop=replace(pool.desktop, agent=agent)))

    def drain(self, *, hours: float | None) -> list[str]:
        by = None if hours is None else self.sim.clock.now() + hours * HOUR
        drained = self.sim.engine.drain(DrainRequest(host="h1", logoff_by=by))
        return [each.vm.name for each in drained.staying if not each.leaves]

    def homes(self, seconds: float) -> dict[str, str]:
        """Where desktops are then."""
        return {name: host for name, (_, host) in self.later(seconds).items()}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.sim.world.close()


def test_who_is_there_stays_and_nobodys_desktop_goes(scene: Scene) -> None:
    assert scene.drain(hours=4) == []
    there = scene.homes(60)
    assert there.pop("cad-01") == "h1" and set(there.values()) == {"h2"}
    there = scene.homes(HOUR)
    assert there["cad-01"] == "h1", "nobody moves it while she is there"
    assert EventKind.HOST_DRAINED not in scene.served.kinds()
    scene.sim.engine.release_desktop("cad", "ada")
    assert "h1" not in scene.homes(60).values()
    scene.later(60)
    assert EventKind.HOST_DRAINED in scene.served.kinds()


def test_at_the_deadline_she_is_logged_off(scene: Scene) -> None:
    scene.drain(hours=4)
    scene.later(3.9 * HOUR)
    assert scene.sim.rows()["cad-01"].desktop.session is not None
    assert "h1" not in scene.homes(0.2 * HOUR).values()
    assert all(row.desktop.session is None for row in scene.sim.rows().values())


def test_she_is_told_before_it_ends_or_it_is_said_why_not(scene: Scene) -> None:
    """Each of the two times once; her desktop's file has no agent."""
    scene.drain(hours=1)
    scene.later(0.8 * HOUR)
    assert scene.served.told(EventKind.USER_NOT_TOLD) == []
    scene.later(0.1 * HOUR)
    [first] = scene.served.told(EventKind.USER_NOT_TOLD)
    said = "ada on cad-01: the session ends in 6 min, and could not be told"
    assert first.text == f"{said}: its file does not say agent: true"
    scene.later(0.09 * HOUR)
    assert len(scene.served.told(EventKind.USER_NOT_TOLD)) == 2


def test_her_guest_shows_it(tmp_path: Path) -> None:
    made = Scene(tmp_path, agent=True)
    made.drain(hours=1)
    made.later(0.95 * HOUR)
    [told] = made.served.told(EventKind.USER_TOLD)
    assert (told.vm, told.host) == ("cad-01", "h1")
    assert made.served.told(EventKind.USER_NOT_TOLD) == []
    made.sim.world.close()


def test_why_it_stays_is_told_once(scene: Scene) -> None:
    scene.drain(hours=4)
    for _ in range(3):
        scene.later(60)
    waits = [e.text for e in scene.served.told(EventKind.HOST_WAITS) if "cad-01" in e.text]
    assert waits == ["cad-01 stays on h1: a desktop of pool cad: it goes when its user logs off"]


def test_without_a_deadline_it_moves_with_its_user(scene: Scene) -> None:
    assert scene.drain(hours=None) == []
    assert scene.homes(60)["cad-01"] == "h2"
    assert scene.sim.rows()["cad-01"].desktop.session is not None


def test_an_owners_desktop_moves(tmp_path: Path) -> None:
    made = Scene(tmp_path, PoolKind.DEDICATED)
    assert made.drain(hours=4) == []
    assert made.sim.ledger.vm("cad-01").host == "h2"
    made.sim.world.close()


def test_the_deadline_ends_with_the_drain(scene: Scene) -> None:
    scene.drain(hours=4)
    scene.sim.engine.undrain("h1")
    assert scene.sim.ledger.host("h1").logoff_by is None
    scene.later(5 * HOUR)
    assert scene.sim.rows()["cad-01"].desktop.session is not None


def test_who_is_cut_off_all_the_same_is_told_in_the_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Scene(tmp_path, agent=True)
    run: list[tuple[str, ...]] = []
    monkeypatch.setattr(GuestScript, "answer", lambda _, asked, *a, **k: run.append(tuple(asked)))
    made.sim.engine.reboot(["cad-01"], force=False, with_users=True)
    assert run == [("wall", "This desktop is stopped now, by its operator.")]
    made.sim.world.close()


def test_serve_tells_an_idle_user(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    pool = made.sim.ledger.pool("cad")
    limits = replace(pool.spec, timeouts=Timeouts(idle_s=HOUR))
    made.sim.ledger.put_pool(replace(pool, spec=limits))
    made.later(60)
    heartbeat(made.sim.engine, "cad-01", "ada")
    made.later(0.9 * HOUR)
    [told] = made.served.told(EventKind.USER_NOT_TOLD)
    assert told.text.startswith("ada on cad-01: the session is disconnected in 6 min")
    made.sim.world.close()
