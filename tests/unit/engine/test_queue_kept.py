"""Room that ``serve`` keeps for who waits longest stays where it is, while others come and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.controller import queue_task
from vgpumgr.engine.controller.cycle_context import ControllerState
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.model.queue import RoomReservation
from vgpumgr.model.vm import Terms

BOUND_S = 1000.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    """Two GPUs: nobody knows how long ``open`` runs on one, ``bound`` on the other is over soon."""
    made = SimWorld(tmp_path, host("T4"), host("T4", name="h2"))
    made.engine = replace(made.engine, clock=FakeClock())
    made.engine.refresh_all()
    made.apply(vm("bound", "T4-8Q", queue=Terms(runtime_s=BOUND_S)))
    made.engine.clock.wait(BOUND_S / 2)
    made.apply(vm("open", "T4-16Q", queue=Terms()))
    made.apply(vm("big", "T4-16Q", queue=Terms(priority=100)))
    yield made
    made.close()


def turn(world: SimWorld, shared: ControllerState) -> RoomReservation:
    """One turn of ``serve``; what is kept after it."""
    lane = CycleThread(queue_task.QUEUE_THREAD, world.engine.clock)
    queue_task.run_queue_cycle(world.engine, lane, shared, lambda _: None)
    [found] = shared.queue.kept
    return found


def new(world: SimWorld) -> ControllerState:
    """What a ``serve`` that has just begun knows."""
    return ControllerState.new(world.engine)


def test_the_next_turn_keeps_it_while_small_ones_come_and_go(world: SimWorld) -> None:
    shared = new(world)
    first = turn(world, shared)
    assert (first.name, first.ends) == ("big", ("open",))
    for number in range(4):
        world.engine.clock.wait(BOUND_S / 10)
        name = f"small-{number}"
        world.apply(vm(name, "T4-8Q", queue=Terms(runtime_s=60.0)))
        assert turn(world, shared) == first
        assert world.ledger.vm(name).host != first.host
        world.delete(name)
    assert turn(world, new(world)).host != first.host, "by now the other would be there sooner"


def test_who_was_kept_room_for_starts_there(world: SimWorld) -> None:
    shared = new(world)
    first = turn(world, shared)
    world.delete("open")
    world.engine.refresh_all()
    lane = CycleThread(queue_task.QUEUE_THREAD, world.engine.clock)
    assert queue_task.run_queue_cycle(world.engine, lane, shared, lambda _: None)
    assert world.ledger.vm("big").host == first.host
    assert shared.queue.kept == ()
