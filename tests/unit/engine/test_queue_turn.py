"""A turn of the queue, carried out on simulated hosts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.controller import queue_task
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_context import ControllerState
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.heal.remedy import DriftSelection
from vgpumgr.engine.queue import queue_cycle
from vgpumgr.model.queue import QueueState
from vgpumgr.model.vm import Terms
from vgpumgr.model.vm_devices import DiskMode, DiskSpec
from vgpumgr.store import open_ledger

ON, SPOT, HIGH = Terms(), Terms(spot=True), Terms(priority=100)
NOWHERE = DiskSpec(mode=DiskMode.COPY, image="nobody-has.qcow2")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    """One GPU that takes one VM at a time; ``first`` is on it, two wait behind."""
    made = SimWorld(tmp_path, host("T4"))
    made.engine.refresh()
    made.apply(vm("first", "T4-16Q"))
    yield made
    made.close()


def states(world: SimWorld) -> dict[str, str]:
    return {each.name: str(each.state) for each in world.ledger.queue()}


def free(world: SimWorld) -> None:
    world.delete("first")
    world.engine.refresh()


def test_one_that_cannot_be_made_keeps_nobody_else_from_starting(world: SimWorld) -> None:
    world.apply(vm("bad", "T4-8Q", queue=HIGH, disks=(NOWHERE,)), vm("good", "T4-8Q", queue=ON))
    assert not queue_cycle.step(world.engine).any
    free(world)
    worked = queue_cycle.step(world.engine)
    assert worked.started == ("good",)
    assert list(worked.refused) == ["bad"]
    assert states(world) == {"bad": "waiting", "good": "running"}
    bad = next(each for each in world.ledger.queue() if each.name == "bad")
    assert "nobody-has.qcow2" in bad.why
    assert (
        queue_cycle.step(world.engine, lambda entry: entry != bad.id)
        == queue_cycle.QueueCycleReport()
    )


def test_a_start_that_a_host_refuses_is_taken_back_and_waits(world: SimWorld) -> None:
    world.apply(vm("good", "T4-8Q", queue=ON))
    free(world)
    world.sim.hosts["h1"].faults.inject(["refuse", "domains.start", "EIO", "1"])
    worked = queue_cycle.step(world.engine)
    assert (worked.started, list(worked.refused)) == ((), ["good"])
    assert states(world) == {"good": "waiting"}
    assert (world.ledger.vms(), world.facts().domains) == ((), ())
    assert queue_cycle.step(world.engine).started == ("good",)


def test_those_that_start_together_all_do_or_none(world: SimWorld) -> None:
    pair = Terms(together="pair")
    world.apply(vm("a", "T4-8Q", queue=pair), vm("b", "T4-8Q", queue=pair, disks=(NOWHERE,)))
    free(world)
    worked = queue_cycle.step(world.engine)
    assert (worked.started, sorted(worked.refused)) == ((), ["a", "b"])
    assert world.ledger.vms() == ()


def test_a_spot_vm_makes_room_and_comes_back_when_there_is_room_again(world: SimWorld) -> None:
    free(world)
    world.apply(vm("spot", "T4-16Q", queue=SPOT))
    world.apply(vm("urgent", "T4-16Q", queue=HIGH))
    worked = queue_cycle.step(world.engine)
    assert (worked.preempted, worked.started) == ({"spot": "urgent"}, ("urgent",))
    [spot] = [each for each in world.ledger.queue() if each.name == "spot"]
    assert (spot.state, spot.preempted) == (QueueState.WAITING, 1)
    world.delete("urgent")
    world.engine.refresh()
    assert queue_cycle.step(world.engine).started == ("spot",)
    assert [each.id for each in world.ledger.vms()] == [spot.vm_id]


def test_what_runs_on_no_terms_is_never_stopped(world: SimWorld) -> None:
    world.apply(vm("urgent", "T4-16Q", queue=HIGH))
    assert queue_cycle.step(world.engine) == queue_cycle.QueueCycleReport()
    assert states(world) == {"urgent": "waiting"}


def test_in_a_frozen_ledger_nothing_starts_and_nothing_is_stopped(world: SimWorld) -> None:
    world.apply(vm("good", "T4-8Q", queue=ON))
    free(world)
    world.ledger.freeze("it is older than its hosts")
    assert queue_cycle.step(world.engine) == queue_cycle.QueueCycleReport()
    assert states(world) == {"good": "waiting"}


def test_a_guest_that_powers_off_ends_its_vm_when_its_host_says_so_once_more(
    world: SimWorld,
) -> None:
    free(world)
    world.apply(vm("job", "T4-16Q", queue=ON))
    world.apply(vm("next", "T4-16Q", queue=Terms(after=("job",))))
    world.engine.refresh()
    record = world.ledger.host("h1")
    assert record.facts is not None
    world.ledger.update_host(replace(record, settled_boot=record.facts.boot_id))
    world.sim.hosts["h1"].domains.shutdown("job")
    world.engine.refresh()
    world.sim.hosts["h1"].faults.inject(["unreachable"])
    assert not queue_cycle.step(world.engine).any
    assert states(world) == {"job": "running", "next": "waiting"}
    world.sim.hosts["h1"].faults.inject(["clear"])
    world.engine.refresh()
    worked = queue_cycle.step(world.engine)
    assert (worked.ended, worked.started) == (("job",), ("next",))
    assert states(world) == {"next": "running"}
    assert str(world.ledger.vm("job").state) == "shelved"


def test_a_host_that_is_shut_down_ends_nobodys_work(world: SimWorld) -> None:
    free(world)
    world.apply(vm("job", "T4-16Q", queue=ON))
    world.engine.refresh()
    record, machine = world.ledger.host("h1"), world.sim.hosts["h1"]
    assert record.facts is not None
    world.ledger.update_host(replace(record, settled_boot=record.facts.boot_id))
    machine.kernel.setup.stopping = True
    machine.domains.shutdown("job")
    world.engine.refresh()
    assert not queue_cycle.step(world.engine).any
    world.sim.inject("h1", ["reboot"])
    machine.kernel.setup.stopping = False
    world.engine.refresh()
    assert not queue_cycle.step(world.engine).any
    assert states(world) == {"job": "running"}
    assert world.ledger.vm("job").running, "serve starts it again"


def test_heal_starts_no_vm_whose_work_is_done(world: SimWorld) -> None:
    free(world)
    world.apply(vm("job", "T4-16Q", queue=ON))
    world.engine.refresh()
    world.sim.hosts["h1"].domains.shutdown("job")
    [remedy] = world.engine.heal_plan(DriftSelection()).remedies
    assert remedy.steps
    record = world.ledger.host("h1")
    assert record.facts is not None
    world.ledger.update_host(replace(record, settled_boot=record.facts.boot_id))
    [remedy] = world.engine.heal_plan(DriftSelection()).remedies
    assert (remedy.steps, remedy.text) == ((), "its guest has powered off: the queue closes it")


def test_one_controller_has_the_queue_at_a_time(world: SimWorld, tmp_path: Path) -> None:
    world.apply(vm("good", "T4-8Q", queue=ON))
    free(world)
    told: list[ControllerEvent] = []
    clock = world.engine.clock
    shared = ControllerState.new(world.engine)

    def turn() -> bool:
        return queue_task.run_queue_cycle(
            world.engine, CycleThread(queue_task.QUEUE_THREAD, clock), shared, told.append
        )

    other = open_ledger(tmp_path / "ledger.db")
    assert other.claim(queue_task.QUEUE_THREAD)
    assert not turn()
    assert (states(world), told) == ({"good": "waiting"}, [])
    other.close()
    assert turn()
    assert [(each.kind, each.vm) for each in told] == [(EventKind.QUEUE_STARTED, "good")]
    assert not turn()
