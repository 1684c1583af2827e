"""VMs leave hot hosts for cooler ones, and no host gets hot by that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import vm
from tests.unit.engine.test_drain import Bench
from vgpumgr.engine.hosts.host_balance import BalancePlan, BalanceRequest
from vgpumgr.model.vm import VmSpec


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.world.close()


def memory_of(bench: Bench) -> int:
    facts = bench.h1().facts
    assert facts is not None
    return facts.memory_mib - bench.h1().reserved_memory_mib


def guest(bench: Bench, name: str, share: float, *gpus: str) -> VmSpec:
    """A VM that takes so much of a host's memory."""
    return vm(name, *gpus, memory_mib=int(memory_of(bench) * share))


def plan(bench: Bench, **wanted: object) -> BalancePlan:
    return bench.world.engine.balance_plan(BalanceRequest(**wanted))  # type: ignore[arg-type]


def moves(found: BalancePlan) -> list[tuple[str, str]]:
    return [(each.choice.vm.name, each.target.host) for each in found.moves]


def test_the_least_vm_that_cools_a_hot_host_leaves_it(bench: Bench) -> None:
    bench.world.engine.refresh()
    bench.make(guest(bench, "a", 0.5), guest(bench, "b", 0.3), guest(bench, "c", 0.15))
    found = plan(bench)
    assert [name for name, _ in moves(found)] == ["c"]
    heat = {each.host: each.heat for each in found.after}
    assert heat["h1"] == pytest.approx(0.8, abs=0.01) and max(heat.values()) <= 0.81
    assert bench.where()["c"] == "h1", "a plan moves nothing"
    report = bench.world.engine.balance(found)
    report.outcome.raise_for_failure()
    assert bench.where()["c"] != "h1" and bench.where()["a"] == "h1"
    assert not plan(bench).moves, "no host is hot any more"


def test_no_host_gets_hot_by_it(bench: Bench) -> None:
    bench.world.engine.refresh()
    bench.make(guest(bench, "a", 0.9))
    found = plan(bench)
    assert not found.moves
    [stays] = found.staying
    assert (stays.vm.name, stays.why) == (
        "a",
        "every other host would be hot with it, or takes no VM",
    )


def test_a_host_whose_gpus_are_busy_is_hot(bench: Bench) -> None:
    bench.world.engine.refresh()
    bench.make(guest(bench, "a", 0.1, "T4-8Q"), guest(bench, "b", 0.1, "T4-8Q"))
    assert not plan(bench).moves
    found = plan(bench, loads={"h1": 0.95})
    assert len(found.moves) == 1
    assert {each.host: each.load for each in found.after}["h1"] == pytest.approx(0.475)


def test_at_most_so_many_move(bench: Bench) -> None:
    bench.world.engine.refresh()
    bench.make(*(guest(bench, f"v{n}", 0.1) for n in range(9)))
    assert len(plan(bench, hot=0.4, most=3).moves) == 3
    spread = plan(bench, hot=0.4)
    assert max(each.heat for each in spread.after) <= 0.41
