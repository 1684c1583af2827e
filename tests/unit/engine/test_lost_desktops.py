"""Desktops on a host that is proven lost: their users get others, and owners keep theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fencing import SimFencing
from tests.poolsim import TwoHosts, spec
from tests.serving import Served
from vgpumgr.model.desktop import DesktopState, DesktopVerb
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import Fence
from vgpumgr.model.pool import PoolKind

pytestmark = pytest.mark.thorough

MINUTE = 60.0


class Scene(TwoHosts):
    """h1 can be proven off."""

    def __init__(self, folder: Path, kind: PoolKind = PoolKind.FLOATING) -> None:
        self.floating = kind is PoolKind.FLOATING
        super().__init__(folder, spec(kind=kind, most=6))
        fencing = SimFencing(self.sim.world.sim)
        self.sim.engine = replace(self.sim.engine, fencing=fencing)
        self.served = Served(self.sim.engine)
        self.mark("h1", fence=Fence(off=("/bin/off",), status=("/bin/status",)))

    def lose(self) -> None:
        self.sim.world.sim.inject("h1", ["unreachable"])
        self.later(0)

    def evacuate(self) -> None:
        plan, _ = self.sim.engine.evacuate("h1")
        assert {each.vm.name for each in plan.staying} == {"cad-01", "cad-02"}
        pools = {each.pool for each in plan.staying}
        assert pools == ({"cad"} if self.floating else {""})

    def back(self) -> None:
        for words in (["clear"], ["on"]):
            self.sim.world.sim.inject("h1", words)
        self.sim.engine.leave_maintenance("h1")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.sim.world.close()


def test_while_nobody_knows_its_user_keeps_it(scene: Scene) -> None:
    scene.lose()
    for _ in range(5):
        assert scene.later()["cad-01"] == ("unknown", "h1")
    with pytest.raises(Conflict, match="ada has cad-01"):
        scene.sim.assign("ada")


def test_once_it_is_proven_its_user_gets_another_at_once(scene: Scene) -> None:
    scene.lose()
    scene.evacuate()
    assert scene.later(1.0)["cad-01"] == ("lost", "h1")
    given = scene.sim.assign("ada")
    assert given.desktop not in {"", "cad-01", "cad-02"} and given.host == "h2"


def test_what_lies_there_goes_when_the_host_is_back(scene: Scene) -> None:
    scene.lose()
    scene.evacuate()
    for _ in range(4):
        rows = scene.later(2 * MINUTE)
    assert {rows["cad-01"][0], rows["cad-02"][0]} == {"leaving"}
    assert scene.sim.rows()["cad-01"].desktop.session is None
    assert [row for row in rows.values() if row == ("ready", "h2")], "spares are made elsewhere"
    scene.back()
    for _ in range(3):
        rows = scene.later()
    assert {"cad-01", "cad-02"}.isdisjoint(rows)
    assert scene.sim.world.sim.host("h1").domains.list() == ()
    held = {each.host for each in scene.sim.ledger.allocations()}
    assert held == {"h2"}


def test_what_was_to_be_made_anew_there_is_lost_too(scene: Scene) -> None:
    """What was taken to be made anew, and not begun as the host went, is not coming."""
    scene.sim.world.sim.inject("h1", ["unreachable"])
    row = scene.sim.rows()["cad-01"]
    fresh = replace(row.desktop, state=DesktopState.CREATING, session=None, stained=False)
    scene.sim.ledger.take_desktops([replace(row, desktop=fresh, doing=DesktopVerb.RECREATE)])
    assert scene.later()["cad-01"] == ("unknown", "h1")
    assert scene.sim.rows()["cad-01"].doing is DesktopVerb.RECREATE
    scene.evacuate()
    assert scene.later(1.0)["cad-01"] == ("lost", "h1")
    assert scene.later()["cad-01"] == ("leaving", "h1")


def test_an_owner_keeps_what_lies_there(tmp_path: Path) -> None:
    scene = Scene(tmp_path, PoolKind.DEDICATED)
    scene.lose()
    scene.evacuate()
    for _ in range(4):
        assert scene.later(2 * MINUTE)["cad-01"] == ("lost", "h1")
    assert scene.sim.rows()["cad-01"].desktop.owner == "ada"
    scene.back()
    for _ in range(3):
        rows = scene.later()
    assert rows["cad-01"] == ("ready", "h1")
    scene.sim.world.close()
