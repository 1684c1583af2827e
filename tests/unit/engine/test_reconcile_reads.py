"""A turn reads of the ledger what is about its host, and misses nothing by that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.serving import Served, serving
from tests.world import World, vm
from vgpumgr.engine.controller.controller_events import EventKind
from vgpumgr.engine.inventory.ledger_view import read_host_view, read_view
from vgpumgr.model.vm import Affinity

OF_A_FLEET = {"hosts", "vms", "allocations", "gpus", "layouts"}


class Listened:
    """A ledger, and what it is asked for."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self.asked: set[tuple[str, tuple[object, ...]]] = set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ledger, name)
        if name not in OF_A_FLEET:
            return found

        def ask(*args: Any, **named: Any) -> Any:
            self.asked.add((name, args[:1]))
            return found(*args, **named)

        return ask


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, FakeHost("h1"), FakeHost("h2", gpus=[t4(1)], parents=[t4_parent(1)]))
    there = [Affinity(hosts=(host,)) for host in ("h1", "h2")]
    specs = [vm(f"on-{each.hosts[0]}", "T4-4Q", affinity=each) for each in there]
    made.engine.apply(specs)[1].raise_for_failure()
    yield made
    made.close()


def test_a_turn_reads_what_is_about_its_host(world: World) -> None:
    ledger = Listened(world.ledger)
    served = Served(replace(world.engine, ledger=ledger))
    served.serve(5)
    assert served.kinds() == []
    reads = OF_A_FLEET - {"hosts"}
    assert ledger.asked == {(name, (host,)) for name in reads for host in ("h1", "h2")}


def test_a_domain_of_a_vm_that_lives_elsewhere_is_told_as_such(world: World) -> None:
    strange = world.hosts["h2"].domains_by_name["on-h2"]
    world.hosts["h1"].domains_by_name["on-h2"] = strange
    served = serving(world)
    served.serve(5)
    told = [(each.host, each.vm, each.drift) for each in served.told(EventKind.DRIFT)]
    assert ("h1", "on-h2", "domain-elsewhere") in told
    assert not any(kind == "domain-leftover" for _, _, kind in told)


def test_the_view_of_a_host_is_the_fleets_as_far_as_it_goes(world: World) -> None:
    world.engine.refresh()
    whole, part = read_view(world.ledger), read_host_view(world.ledger, "h2")
    assert part.hosts == tuple(each for each in whole.hosts if each.name == "h2")
    for rows in ("gpus", "vms", "allocations", "layouts"):
        assert getattr(part, rows) == tuple(r for r in getattr(whole, rows) if r.host == "h2")
