"""Flavours in the ledger: set, and forgotten once nothing has them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from tests.unit.store.values import open_ledger
from vgpumgr.endpoints.flavours import flavour_items
from vgpumgr.model.errors import Conflict, InUse, NotFound
from vgpumgr.model.flavour import Flavour
from vgpumgr.model.role_binding import ALL_TENANTS
from vgpumgr.store.ledger.flavours import MOST_FLAVOURS
from vgpumgr.store.ledger.scoped_reads import SqlScopedReads

SMALL = Flavour(name="small", keys={"vcpus": 2, "gpus": [{"profile": "T4-2Q"}]})


def test_a_flavour_is_the_one_that_was_set_last(url: str) -> None:
    ledger = open_ledger(url, by="ada@desk")
    ledger.set_flavour(Flavour(name="large", keys={"memory": "64GiB"}, host_class="gold"))
    ledger.set_flavour(Flavour(name="small"))
    ledger.set_flavour(SMALL)
    large, small = ledger.flavours()
    assert (large.keys, large.host_class) == ({"memory": "64GiB"}, "gold")
    assert (small.keys, small.host_class, small.set_by) == (SMALL.keys, "", "ada@desk")
    ledger.delete_flavour("large")
    assert [each.name for each in ledger.flavours()] == ["small"]
    told = [each.event for each in reversed(ledger.audit(event="flavour"))]
    assert told == ["flavour.set"] * 3 + ["flavour.deleted"]


def test_one_that_is_not_there_is_not_found(url: str) -> None:
    ledger = open_ledger(url)
    ledger.set_flavour(SMALL)
    with pytest.raises(NotFound, match="no flavour smal"):
        ledger.delete_flavour("smal")


def test_one_that_a_vm_has_stays(world: SimWorld) -> None:
    world.ledger.set_flavour(SMALL)
    world.apply(vm("a", flavour="small"))
    with pytest.raises(InUse, match="the flavour small is in use") as caught:
        world.ledger.delete_flavour("small")
    assert caught.value.why == "by a"
    world.delete("a")
    world.ledger.delete_flavour("small")
    assert world.ledger.flavours() == ()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4"))
    made.engine.refresh()
    yield made
    made.close()


def test_vms_and_pools_are_read_once_for_all_flavours(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    flavours = [Flavour(name=name) for name in ("large", "none", "small")]
    for each in flavours:
        world.ledger.set_flavour(each)
    world.apply(vm("a", flavour="small"), vm("b", flavour="large"), vm("c", flavour="small"))
    reads, read = count(), SqlScopedReads.vms
    monkeypatch.setattr(SqlScopedReads, "vms", lambda of: (next(reads), read(of))[1])
    items = flavour_items(flavours, world.ledger.within(ALL_TENANTS))
    assert [each["vms"] for each in items] == [["b"], [], ["a", "c"]]
    assert next(reads) == 1


def test_there_is_a_most(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_FLAVOURS == 1000
    monkeypatch.setattr("vgpumgr.store.ledger.flavours.MOST_FLAVOURS", 1)
    ledger = open_ledger(url)
    ledger.set_flavour(SMALL)
    ledger.set_flavour(SMALL)
    with pytest.raises(Conflict, match="which is the most"):
        ledger.set_flavour(Flavour(name="large"))
