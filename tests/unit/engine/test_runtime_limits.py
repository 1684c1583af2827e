"""`runtime:` of VMs of the queue: told in time, then stopped; simulated hosts, time ahead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.queue import queue_cycle
from vgpumgr.engine.queue.queue_cycle import QueueCycleReport
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.model.domain import DomainState
from vgpumgr.model.queue import QueueEntry, QueueState
from vgpumgr.model.vm import Terms, VmState

HOUR = 3600.0
LIMITED = vm("train", "T4-4Q", agent=True, queue=Terms(runtime_s=HOUR))


class Ahead(SystemClock):
    """So many seconds ahead."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        return time.time() + self._seconds


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4"))
    made.engine.refresh()
    made.apply(LIMITED, vm("free", "T4-4Q", queue=Terms()), vm("plain", "T4-4Q"))
    made.engine.refresh()
    yield made
    made.close()


def cycle(world: SimWorld, after_s: float, told: dict[str, float]) -> QueueCycleReport:
    return queue_cycle.step(replace(world.engine, clock=Ahead(after_s)), told=told)


def entry(world: SimWorld, name: str = "train") -> QueueEntry | None:
    return next((each for each in world.ledger.queue() if each.name == name), None)


def running(world: SimWorld) -> set[str]:
    return {d.name for d in world.facts().domains if d.state is DomainState.RUNNING}


def test_it_is_told_once_a_tenth_before_its_end(world: SimWorld) -> None:
    told: dict[str, float] = {}
    before = entry(world)
    assert before and cycle(world, HOUR - 370, told).told == {}
    world.sim.inject("h1", ["guest", "train", "users", "2"])
    report = cycle(world, HOUR - 350, told)
    assert list(report.told) == ["train"] and not report.any
    assert "its runtime of 1 h is over then; 2 users logged in" in report.told["train"]
    after = entry(world)
    assert after and after.why == report.told["train"]
    assert (after.state, after.started_at) == (QueueState.RUNNING, before.started_at)
    assert cycle(world, HOUR - 340, told).told == {}
    assert running(world) == {"train", "free", "plain"}


def test_it_is_stopped_when_its_time_is_over_and_keeps_its_disks(world: SimWorld) -> None:
    told: dict[str, float] = {}
    cycle(world, HOUR - 100, told)
    assert cycle(world, HOUR - 10, told).overdue == ()
    report = cycle(world, HOUR + 1, told)
    assert report.overdue == ("train",) and report.any
    assert world.ledger.vm("train").state is VmState.SHELVED
    assert running(world) == {"free", "plain"}
    assert entry(world) is None
    assert {each.vm for each in world.ledger.allocations()} == {"free", "plain"}
    assert cycle(world, 10 * HOUR, told).overdue == () and told == {}


def test_whoever_comes_late_tells_first(world: SimWorld) -> None:
    told: dict[str, float] = {}
    assert list(cycle(world, 2 * HOUR, told).told) == ["train"]
    assert "train" in running(world)
    assert cycle(world, 2 * HOUR + 30, told).overdue == ()
    assert cycle(world, 2 * HOUR + 61, told).overdue == ("train",)


def test_what_waits_after_it_starts_then(world: SimWorld) -> None:
    world.apply(vm("next", queue=Terms(after=("train",))))
    told: dict[str, float] = {}
    cycle(world, HOUR, told)
    assert cycle(world, HOUR + 70, told).started == ("next",)


def test_a_longer_runtime_in_its_file_counts_at_once(world: SimWorld) -> None:
    longer = replace(LIMITED, queue=Terms(runtime_s=4 * HOUR))
    world.engine.apply([longer])[1].raise_for_failure()
    assert cycle(world, HOUR + 70, {}).told == {}


def test_one_that_its_user_stopped_or_that_started_again_is_not_stopped(world: SimWorld) -> None:
    world.engine.stop_vms(["train"], force=True, timeout_s=5.0).raise_for_failure()
    world.engine.refresh()
    told: dict[str, float] = {}
    assert (cycle(world, 2 * HOUR, told).told, told) == ({}, {})
    world.engine.start(["train"]).raise_for_failure()
    world.engine.refresh()
    assert list(cycle(world, 2 * HOUR, told).told) == ["train"]


def test_a_host_that_does_not_answer_proves_nothing(world: SimWorld) -> None:
    world.sim.inject("h1", ["off"])
    world.engine.refresh()
    assert cycle(world, 2 * HOUR, {}).told == {}
