"""A rush of users: who is overtaken each time waits for a desktop, and is not refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.poolsim import PoolSim, spec


def test_who_is_overtaken_each_time_waits_and_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = PoolSim(tmp_path, spec(least=2), "h1")
    world.turn()
    with monkeypatch.context() as rush:
        rush.setattr(type(world.ledger), "take_desktops", lambda *_: ())
        given = world.assign("ada")
    assert (given.desktop, bool(given.waits)) == ("", True)
    world.turn()
    sessions = [row.desktop.session for row in world.rows().values()]
    assert [each.user for each in sessions if each is not None] == ["ada"]
    world.world.close()
