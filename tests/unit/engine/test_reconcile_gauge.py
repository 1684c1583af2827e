"""`serve` proposes moves when too much of the free GPU memory is of no use, and says when not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.fragmentation_watch import EVERY_S, NEVER, GaugeWatch
from vgpumgr.engine.operations.expected_requests import ExpectedRequests


class Later:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def test_it_is_told_once_and_once_when_it_is_over(tmp_path: Path) -> None:
    world, clock, heard = SimWorld(tmp_path, host("T4", "T4")), Later(), list[ControllerEvent]()
    wants = ((vm("typical", "T4-16Q"), 1.0),)
    context = replace(world.engine, clock=clock, expected=ExpectedRequests(lambda: wants))
    watch = GaugeWatch(context, 0.3, heard.append)
    world.apply(vm("small", "T4-2Q"))
    for _ in range(2):
        watch.look()
        clock.at += EVERY_S
    assert [event.kind for event in heard] == [EventKind.FRAGMENTED]
    assert heard[0].next == "vgpumgr defrag plan"
    world.delete("small")
    watch.look()
    watch.look()
    assert [event.kind for event in heard[1:]] == [EventKind.FRAGMENTED_ENDED]
    GaugeWatch(context, NEVER, heard.append).look()
    assert len(heard) == 2
    world.close()
