"""A move whose source could not tell its storage pools: found by the soak, a disk stayed behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.movers import desk, make, two_hosts
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import UnknownPart


@pytest.mark.parametrize("cold", [False, True], ids=["live", "cold"])
def test_a_disk_whose_pool_was_not_read_is_never_left_behind(tmp_path: Path, cold: bool) -> None:
    world = two_hosts(tmp_path)
    make(world, desk())
    source = world.hosts["h1"]
    before = source.left()
    source.pools, source.unknown = (), (UnknownPart(part="pools", why="cut"),)
    with pytest.raises(Conflict) as refused:
        world.engine.migrate("desk", "h2", cold=cold)
    assert "pool default on h1 could not be read" in refused.value.why
    assert source.left() == before
    assert not world.hosts["h2"].volumes
    source.pools, source.unknown = ("default",), ()
    world.engine.migrate("desk", "h2", cold=cold).raise_for_failure()
    assert set(world.hosts["h2"].volumes) == set(world.vm("desk").volumes)
    world.close()
