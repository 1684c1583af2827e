"""Threads for turns: a host that hangs keeps its own, and nobody else waits for it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.fakes import FakeClock, FakeHost, t4, t4_parent
from tests.serving import Killed, kill_at
from tests.world import World, vm
from vgpumgr.engine.controller.controller import Controller
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_schedule import ControllerStatus, ProbePauses
from vgpumgr.engine.controller.cycle_threads import CycleThread, ThreadCycleRunner
from vgpumgr.engine.controller.retry_backoff import RetryBackoff, backed_off
from vgpumgr.engine.workers.thread_workers import SystemClock
from vgpumgr.model.errors import HostRefused


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@dataclass
class Door:
    """Where a thread waits until it is let through."""

    def __post_init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, lane: CycleThread | None = None) -> str:
        self.reached.set()
        assert self.open.wait(30)
        return "through"


def test_a_turn_that_shows_no_life_is_abandoned_and_its_place_is_free() -> None:
    clock, door = FakeClock(), Door()
    turns: ThreadCycleRunner[str] = ThreadCycleRunner(1, clock)

    def job(lane: CycleThread) -> str:
        lane.expect(60)
        return door(lane)

    turns.begin("h1", job)
    assert door.reached.wait(30)
    assert (turns.free, turns.abandon_overdue()) == (0, [])
    clock.wait(61)
    (lane,) = turns.abandon_overdue()
    assert (lane.host, lane.abandoned, lane.stop.is_set()) == ("h1", True, True)
    assert (turns.free, turns.busy, turns.stuck) == (1, {"h1"}, {"h1"})
    assert turns.abandon_overdue() == []
    door.open.set()
    (end,) = turns.ended(30)
    assert (end.lane.abandoned, end.result) == (True, "through")
    assert turns.busy == frozenset()


def test_a_turn_that_shows_life_is_waited_for() -> None:
    clock = FakeClock()
    lane = CycleThread("h1", clock)
    lane.expect(60)
    for _ in range(10):
        clock.wait(59)
        lane.alive()
        assert not lane.overdue
    clock.wait(61)
    assert lane.overdue


def test_what_a_turn_raises_is_its_result() -> None:
    turns: ThreadCycleRunner[str] = ThreadCycleRunner(1, FakeClock())

    def job(lane: CycleThread) -> str:
        raise HostRefused("no")

    turns.begin("h1", job)
    (end,) = turns.ended(30)
    assert isinstance(end.result, HostRefused)


def test_a_wait_ends_when_somebody_wakes_it() -> None:
    turns: ThreadCycleRunner[str] = ThreadCycleRunner(1, FakeClock())
    turns.wake()
    began = time.monotonic()
    assert turns.ended(100) == []
    assert time.monotonic() - began < 90


class Clock(SystemClock):
    """Real time, and a leap on demand."""

    leap = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.leap


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, FakeHost("h1"), FakeHost("h2", gpus=[t4(1)], parents=[t4_parent(1)]))
    yield made
    made.close()


class Threaded:
    """A controller with real threads in a thread of its own."""

    def __init__(self, world: World) -> None:
        self.events: list[ControllerEvent] = []
        self.status = ControllerStatus(at=0.0)
        self.clock = Clock()
        context = replace(world.engine, clock=self.clock)
        self.stop = context.stop
        pace = ProbePauses(0.2, first_s=0.05, spread=random.Random(1))
        turns: ThreadCycleRunner = ThreadCycleRunner(4, self.clock)  # type: ignore[type-arg]
        self.controller = Controller(context, turns, pace, emit=self.events.append, show=self._show)
        self.thread = threading.Thread(target=self._run)

    def _show(self, status: ControllerStatus) -> None:
        self.status = status

    def _run(self) -> None:
        while not self.stop.is_set():
            self.controller.round(0.02)

    def kinds(self, host: str = "") -> list[EventKind]:
        return [event.kind for event in self.events if host in {"", event.host}]

    def __enter__(self) -> Threaded:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()
        assert self.controller.finish(30)


def test_a_host_that_hangs_delays_no_other_and_its_late_answer_is_not_kept(world: World) -> None:
    world.engine.refresh()
    threads = threading.active_count()  # other tests may have left some
    hung, door = world.hosts["h1"], Door()
    probe = hung.probe

    def hang() -> object:
        facts = replace(probe(), cpus=99)
        door()
        return facts

    hung.probe = hang  # type: ignore[method-assign,assignment]
    with Threaded(world) as served:
        assert door.reached.wait(30)
        seen = len(world.hosts["h2"].calls)
        until(lambda: len(world.hosts["h2"].calls) > seen + 5)
        served.clock.leap = 10_000
        until(lambda: "h1" in served.status.stuck)
        record = world.ledger.host("h1")
        assert record.last_error.startswith("no sign of life for 300 s")
        seen = len(world.hosts["h2"].calls)
        until(lambda: len(world.hosts["h2"].calls) > seen + 5)
        assert served.kinds("h1") == [EventKind.HOST_STUCK]
        assert threading.active_count() < threads + 12
        hung.probe = probe  # type: ignore[method-assign]
        hung.down = True
        door.open.set()
        until(lambda: EventKind.HOST_UNSTUCK in served.kinds("h1"))
        until(lambda: "does not answer" in world.ledger.host("h1").last_error)
        assert world.ledger.host("h1").facts.cpus != 99  # type: ignore[union-attr]
        hung.down = False
        until(lambda: EventKind.HOST_REACHED in served.kinds("h1"))


def test_a_hung_host_does_not_delay_the_recovery_of_another(world: World) -> None:
    kill_at(world, "start")
    with pytest.raises(Killed):
        world.engine.apply([vm("a", "T4-4Q")])
    world.restart()
    name = next(
        task.host for each in world.ledger.operations() for task in world.ledger.tasks(each.id)
    )
    other = next(each for each in world.hosts if each != name)
    world.hosts[name].on_call = lambda _: None
    door = Door()
    world.hosts[other].probe = door  # type: ignore[method-assign,assignment]
    with Threaded(world) as served:
        assert door.reached.wait(30)
        until(world.settled)
        assert other in served.status.busy
        door.open.set()


def test_two_turns_of_one_operation_write_its_end_once(world: World) -> None:
    kill_at(world, "start", after=2)
    with pytest.raises(Killed):
        world.engine.apply([vm(f"v{n}", "T4-4Q") for n in range(6)])
    world.restart()
    for host in world.hosts.values():
        host.on_call = lambda _: time.sleep(0.001)
    with Threaded(world) as served:
        until(world.settled)
        until(lambda: EventKind.OPERATION_ENDED in served.kinds())
        assert served.kinds().count(EventKind.OPERATION_ENDED) == 1
        assert EventKind.TURN_FAILED not in served.kinds()


def test_a_pause_doubles_up_to_the_longest() -> None:
    assert [backed_off(n, 1, 30) for n in range(8)] == [1, 1, 2, 4, 8, 16, 30, 30]
    assert backed_off(10_000, 1, 30) == 30


def test_pauses_are_spread_and_never_longer_than_the_interval() -> None:
    pace = ProbePauses(30, spread=random.Random(7))
    calm = [pace.calm() for _ in range(500)]
    assert 24 <= min(calm) < 25 and 29 < max(calm) <= 30
    assert all(0.5 <= pace.again(1) <= 1 for _ in range(100))
    assert all(15 <= pace.again(20) <= 30 for _ in range(100))


def test_patience_is_reset_by_an_end() -> None:
    clock = FakeClock()
    patience = RetryBackoff(clock.monotonic)
    assert patience.ready("x")
    assert [patience.failed("x") for _ in range(3)] == [1, 2, 3]
    assert not patience.ready("x") and patience.ready("y")
    clock.wait(4)
    assert patience.ready("x")
    patience.done("x")
    assert patience.failed("x") == 1
