"""What agents in guests tell of who is at work keeps sessions, and ends them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.poolsim import DESKTOP, STAFF, PoolSim, spec
from tests.serving import Served
from vgpumgr.engine.consoles.console_request import guest_addresses
from vgpumgr.engine.controller import host_cycle
from vgpumgr.engine.controller.cycle_context import HostCycle
from vgpumgr.model.desktop import DesktopRecord, DesktopSession
from vgpumgr.model.pool import Timeouts

MINUTE = 60.0
LIMITS = Timeouts(idle_s=30 * MINUTE, disconnect_s=10 * MINUTE)


class Scene:
    """A pool whose guests have agents, and ada on its first desktop."""

    def __init__(self, folder: Path, *, agent: bool = True) -> None:
        pool = spec(desktop=replace(DESKTOP, agent=agent), timeouts=LIMITS)
        self.sim = PoolSim(folder, pool, "h1")
        self.sim.turn()
        assert self.sim.assign("ada").desktop == "cad-01"
        self.served = Served(self.sim.engine)

    def say(self, *words: str) -> None:
        self.sim.world.sim.inject("h1", ["guest", "cad-01", *words])

    def later(self, seconds: float = 2 * MINUTE) -> DesktopSession | None:
        """Hosts are looked at, then pools."""
        self.sim.clock.wait(seconds)
        self.served.controller.once()
        self.sim.turn()
        row = self.sim.rows().get("cad-01")
        return row.desktop.session if row else None


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.sim.world.close()


def test_who_is_logged_in_is_at_work(scene: Scene) -> None:
    """No viewer goes through us: without the agent nothing would be known."""
    there = scene.later()
    assert there is not None and not there.watched and there.disconnected is None
    scene.say("users", "1")
    for _ in range(3):
        there = scene.later(20 * MINUTE)
        assert there is not None and there.watched and there.disconnected is None
        assert scene.sim.clock.now() - there.active < MINUTE


def test_who_has_logged_off_there_is_disconnected_then_logged_off(scene: Scene) -> None:
    scene.say("users", "1")
    scene.later()
    scene.say("users", "0")
    there = scene.later()
    assert there is not None and there.disconnected is not None
    assert scene.later(11 * MINUTE) is None, "and the desktop goes"


def test_a_session_whose_viewer_left_ends_though_somebody_is_logged_in(scene: Scene) -> None:
    scene.say("users", "1")
    there = scene.later()
    row = scene.sim.rows()["cad-01"]
    assert there is not None
    away = replace(there, disconnected=scene.sim.clock.now())
    scene.sim.ledger.take_desktops([replace(row, desktop=replace(row.desktop, session=away))])
    there = scene.later()
    assert there is not None and there.disconnected == away.disconnected
    assert scene.later(11 * MINUTE) is None


def test_agents_are_not_asked_all_the_time(scene: Scene) -> None:
    scene.say("users", "1")
    there = scene.later()
    assert there is not None
    again = scene.later(5.0)
    assert again is not None and again.active == there.active


def test_a_guest_that_hangs_takes_little_of_a_turn(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one waits for another turn, and the one that hung for longer."""
    asked: list[str] = []

    def hang(turn: HostCycle, row: DesktopRecord) -> bool:
        asked.append(row.name)
        scene.sim.clock.wait(5.0)
        return False

    scene.sim.turn()
    assert scene.sim.engine.assign_desktop("cad", "bob", STAFF).desktop == "cad-02"
    monkeypatch.setattr(host_cycle, "_ask", hang)
    scene.later()
    assert asked == ["cad-01"] or asked == ["cad-02"]
    scene.later(30.0)
    assert sorted(asked) == ["cad-01", "cad-02"]
    scene.later(MINUTE)
    assert len(asked) == 2


def test_no_guest_is_asked_that_has_no_agent(tmp_path: Path) -> None:
    scene = Scene(tmp_path, agent=False)
    scene.say("users", "1")
    there = scene.later()
    assert there is not None and not there.watched
    scene.sim.world.close()


def test_its_own_addresses_are_told(scene: Scene) -> None:
    vm = scene.sim.ledger.vm("cad-01")
    assert guest_addresses(scene.sim.engine, vm) == ()
    scene.say("address", "10.0.0.7")
    assert guest_addresses(scene.sim.engine, vm) == ("10.0.0.7",)
    scene.sim.world.sim.inject("h1", ["unreachable"])
    assert guest_addresses(scene.sim.engine, vm) == ()
