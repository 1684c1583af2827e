"""`serve` looks after guests: those that are due, host by host, and tells each change once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from tests.simworld import OLD, SimWorld, host, vm
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.guest_task import GuestTask
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.model.guest import ChosenProfile, GuestSpec
from vgpumgr.model.vm import Affinity
from vgpumgr.model.vm_devices import CloudInit
from vgpumgr.sim.injection import inject

GUEST = GuestSpec(profiles=(ChosenProfile(name="docker"),))


class Watched:
    """Two hosts with a guest each, and the task on a clock that is ours."""

    def __init__(self, folder: Path) -> None:
        self.world = SimWorld(
            folder, host("T4", name="h1", versions=OLD), host("T4", name="h2", versions=OLD)
        )
        self.clock = FakeClock()
        self.world.engine = replace(self.world.engine, clock=self.clock)
        self.world.engine.refresh()
        fields = {"agent": True, "guest": GUEST, "cloud_init": CloudInit()}
        for number in ("1", "2"):
            place = Affinity(hosts=(f"h{number}",))
            self.world.apply(vm(f"desk-{number}", **fields, affinity=place))
        self.told: list[ControllerEvent] = []
        patience = RetryBackoff(self.clock.monotonic)
        self.task = GuestTask(self.world.engine, patience, self.told.append)

    def turn(self, after_s: float = 0.0) -> list[tuple[EventKind, str]]:
        """What was told of the turn, so much later."""
        self.clock.wait(after_s)
        self.told.clear()
        self.task.take(CycleThread("guests:", self.clock))
        return [(each.kind, each.vm) for each in self.told]

    def phase(self, name: str) -> str:
        found = self.world.ledger.vm(name).guest
        return str(found.phase) if found else ""


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_guest_that_is_ready_is_told_once_and_left_alone(watched):
    ready = [(EventKind.GUEST_READY, "desk-1"), (EventKind.GUEST_READY, "desk-2")]
    assert sorted(watched.turn()) == ready
    inject(watched.world.sim.host("h1"), ["guest", "desk-1", "no-programs"])
    assert watched.turn(10) == []
    assert watched.phase("desk-1") == "ready"
    assert watched.turn(300) == [(EventKind.GUEST_FAILED, "desk-1")]
    assert watched.turn(60) == []


def test_a_host_that_does_not_answer_keeps_no_other_guest_waiting(watched):
    inject(watched.world.sim.host("h1"), ["unreachable"])
    assert watched.turn() == [(EventKind.GUEST_READY, "desk-2")]
    assert watched.phase("desk-1") == ""
    inject(watched.world.sim.host("h1"), ["clear"])
    assert watched.turn() == []
    assert watched.turn(10) == [(EventKind.GUEST_READY, "desk-1")]


def test_what_another_controller_looks_after_is_left_to_it(watched, monkeypatch):
    monkeypatch.setattr(type(watched.world.ledger), "claim", lambda *_: False)
    assert watched.turn() == []
    assert watched.phase("desk-1") == ""
