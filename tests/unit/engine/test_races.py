"""Two engines over one ledger: at most one of them wins a unit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import FakeHost
from tests.world import World, vm
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.errors import NoPlacement
from vgpumgr.model.operation import Reservation


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


class Racing:
    """A ledger before whose first ``reserve`` somebody else acts."""

    def __init__(self, ledger: object, other: object) -> None:
        self._ledger = ledger
        self._other = other
        self.tries = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def reserve(self, reservation: Reservation) -> None:
        self.tries += 1
        if self.tries == 1:
            self._other()  # type: ignore[operator]
        self._ledger.reserve(reservation)  # type: ignore[attr-defined]


def racing(world: World, other: object) -> tuple[Engine, Racing]:
    ledger = Racing(world.ledger, other)
    return world.engine_over(ledger), ledger  # type: ignore[arg-type]


def test_two_engines_after_the_last_unit_and_one_wins(world: World) -> None:
    rival = world.engine_over(world.open())
    engine, ledger = racing(world, lambda: rival.apply([vm("theirs", "passthrough")]))
    with pytest.raises(NoPlacement):
        engine.apply([vm("ours", "passthrough")])
    assert ledger.tries == 1, "planned anew, and saw that it was gone"
    assert world.names() == ["theirs"]
    assert world.free_slots() == 0
    assert list(world.host.domains_by_name) == ["theirs"]


def test_the_loser_of_a_race_takes_what_is_left(world: World) -> None:
    rival = world.engine_over(world.open())
    engine, ledger = racing(world, lambda: rival.apply([vm("theirs", "T4-8Q")]))
    engine.apply([vm("ours", "T4-8Q")])[1].raise_for_failure()
    assert ledger.tries == 2
    assert world.free_slots() == 0
    assert len(world.host.mdevs) == 2


def test_two_engines_after_the_last_memory_of_a_host(tmp_path: Path) -> None:
    """No GPU referees here, only the host's generation."""
    world = World(tmp_path, FakeHost(gpus=[], parents=[], memory_mib=4096))
    rival = world.engine_over(world.open())
    engine, _ = racing(world, lambda: rival.apply([vm("theirs", memory_mib=2048)]))
    with pytest.raises(NoPlacement, match="ours"):
        engine.apply([vm("ours", memory_mib=2048)])
    assert world.names() == ["theirs"]
    world.close()


def test_a_rival_between_the_look_and_the_plan_is_noticed(world: World) -> None:
    """The generations that referee are those of the very reading the plan was made from."""
    rival = world.engine_over(world.open())
    refused: list[object] = []

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(world.ledger, name)

        def epoch(self) -> int:
            if not refused:
                refused.append(rival.apply([vm("theirs", memory_mib=40_000)]))
            return world.ledger.epoch()

    with pytest.raises(NoPlacement):
        world.engine_over(Slow()).apply([vm("ours", memory_mib=40_000)])  # type: ignore[arg-type]
    assert world.names() == ["theirs"]


def test_merely_looking_fails_nobodys_plan(world: World) -> None:
    rival = world.engine_over(world.open())
    engine, ledger = racing(world, rival.refresh)
    engine.apply([vm("web", "T4-4Q")])[1].raise_for_failure()
    assert ledger.tries == 1
