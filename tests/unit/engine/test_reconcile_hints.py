"""A hint makes the queue's turn due at once, also one that comes while a turn is under way."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from tests.fakes import FakeClock
from vgpumgr.engine.controller.cycle_threads import CycleThread, EndedCycle
from vgpumgr.engine.controller.fleet_task_runner import PAUSE_S, FleetTaskRunner


class Turns:
    """Turns that are begun, and end with nothing done when told to."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._lanes: list[CycleThread] = []
        self.begun = 0

    @property
    def busy(self) -> frozenset[str]:
        return frozenset(lane.host for lane in self._lanes)

    def begin(self, host: str, job: Callable[[CycleThread], bool]) -> None:
        self._lanes.append(CycleThread(host, self._clock))
        self.begun += 1

    def ended(self, wait_s: float) -> list[EndedCycle[bool]]:
        ends, self._lanes = [EndedCycle(lane, False) for lane in self._lanes], []
        return ends


def test_a_hint_is_never_lost() -> None:
    clock = FakeClock()
    turns = Turns(clock)
    context = SimpleNamespace(clock=clock)
    jobs = {"queue:": lambda _: False}
    queue = FleetTaskRunner(context, turns, jobs, lambda _: None)  # type: ignore[arg-type]
    queue.begin_due()
    queue.collect()
    queue.begin_due()
    assert turns.begun == 1, "nothing was to do: it has a pause"
    queue.hurry()
    queue.begin_due()
    assert turns.begun == 2
    queue.hurry()
    queue.begin_due()
    assert turns.begun == 2, "it is under way"
    queue.collect()
    queue.begin_due()
    assert turns.begun == 3
    queue.collect()
    queue.begin_due()
    assert turns.begun == 3
    clock.wait(PAUSE_S)
    queue.begin_due()
    assert turns.begun == 4


def test_one_task_is_hurried_alone() -> None:
    clock = FakeClock()
    turns = Turns(clock)
    context = SimpleNamespace(clock=clock)
    jobs = {"guests:": lambda _: False, "desktops:": lambda _: False}
    queue = FleetTaskRunner(context, turns, jobs, lambda _: None)  # type: ignore[arg-type]
    queue.begin_due()
    queue.collect()
    queue.hurry("desktops:")
    queue.begin_due()
    assert [each.host for each in turns._lanes] == ["desktops:"]
