"""Operations that are interrupted, resumed, undone, or held by another process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeHost
from tests.world import World, effects, vm, with_disk
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.engine.workers.thread_workers import ThreadWorkers
from vgpumgr.model.errors import Conflict, Interrupted, OutcomeUnknown
from vgpumgr.model.operation import OperationState, TaskState

FULL = with_disk("web", "T4-4Q")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def empty(world: World) -> dict[str, object]:
    return world.host.left()


def cut_apply(world: World) -> str:
    """An apply that a cut call left open; its operation."""
    world.host.refuse("define", OutcomeUnknown("cut"))
    _, outcome = world.engine.apply([FULL])
    return outcome.operation


def test_resume_finishes(world: World) -> None:
    operation = cut_apply(world)
    assert world.ledger.operation(operation).state is OperationState.INTERRUPTED
    world.engine.resume(operation[:8]).raise_for_failure()
    assert world.settled()
    assert world.ledger.operation(operation).state is OperationState.DONE
    world.engine.resume(operation).raise_for_failure()


def test_undo_takes_back(world: World, empty: dict[str, object]) -> None:
    world.engine.undo(cut_apply(world))
    assert world.host.left() == empty
    assert (world.names(), world.free_slots()) == ([], 16)


def test_undo_leaves_what_is_done(world: World) -> None:
    world.host.refuse("define", OutcomeUnknown("cut"), about=">b<")
    _, outcome = world.engine.apply([vm("a"), vm("b")])
    undone = world.engine.undo(outcome.operation)
    assert [each.state for each in undone.vms] == [TaskState.DONE, TaskState.UNDONE]
    assert world.names() == ["a"]


def test_a_delete_cannot_be_undone(world: World) -> None:
    world.engine.apply([FULL])
    world.host.refuse("undefine", OutcomeUnknown("cut"))
    outcome = world.engine.delete(["web"], keep_disks=False, force=True)
    with pytest.raises(Conflict, match="cannot be undone"):
        world.engine.undo(outcome.operation)


def test_an_operation_that_another_live_process_works_on_is_left_to_it(world: World) -> None:
    operation = cut_apply(world)
    assert world.ledger.claim_operation(operation)
    other = world.engine_over(world.open())
    for attempt in (
        lambda: other.resume(operation),
        lambda: other.undo(operation),
        lambda: other.apply([FULL]),
    ):
        with pytest.raises(Conflict, match="is running"):
            attempt()
    world.restart().resume(operation).raise_for_failure()


def test_a_start_that_was_left_open_is_not_gone_on_with_after_a_delete(
    world: World, empty: dict[str, object]
) -> None:
    """Its device would be made again, for nobody."""

    class Killed(BaseException):
        pass

    def die(name: str) -> None:
        if name == "mdev_create":
            raise Killed

    world.engine.apply([FULL])
    world.host.reboot()
    world.host.on_call = die
    with pytest.raises(Killed):
        world.engine.start(["web"])
    world.host.on_call = lambda _: None
    engine = world.restart()
    (open_,) = world.ledger.operations(open_only=True)
    engine.delete(["web"], keep_disks=False, force=True).raise_for_failure()
    resumed = engine.resume(open_.id)
    assert [each.state for each in resumed.vms] == [TaskState.FAILED]
    assert world.host.left() == empty
    assert world.settled()


def test_ctrl_c_lets_the_running_call_end_and_begins_nothing_new(world: World) -> None:
    engine = world.engine

    def interrupt(name: str) -> None:
        if name == "volume_create":
            engine.stop.set()

    world.host.on_call = interrupt
    _, outcome = engine.apply([FULL, vm("later")])
    assert outcome.interrupted
    with pytest.raises(Interrupted) as caught:
        outcome.raise_for_failure()
    assert caught.value.exit_status == 130
    assert f"vgpumgr operation resume {outcome.operation}" in caught.value.next
    assert f"operation undo {outcome.operation}" in caught.value.next
    assert effects(world.host) == ["mdev_create", "volume_create"]
    assert len(world.host.volumes) == 1
    assert world.ledger.operation(outcome.operation).state is OperationState.INTERRUPTED

    world.host.on_call = lambda _: None
    again = world.restart()
    again.resume(outcome.operation).raise_for_failure()
    assert world.names() == ["later", "web"]
    assert world.settled()
    assert effects(world.host).count("mdev_create") == 1


def test_ctrl_c_before_anything_was_reserved_changes_nothing(world: World) -> None:
    world.engine.stop.set()
    with pytest.raises(Interrupted):
        world.engine.apply([FULL])
    assert (world.names(), world.ledger.operations()) == ([], ())


def test_lanes_of_several_hosts_stop_together(tmp_path: Path) -> None:
    hosts = [FakeHost(name=f"h{n}", gpus=[], parents=[]) for n in range(3)]
    world = World(tmp_path, *hosts)
    world.engine.refresh()
    engine = replace(world.engine, lanes=ThreadWorkers())
    for host in hosts:
        host.on_call = lambda name: engine.stop.set() if name == "define" else None
    _, outcome = engine.apply([vm(f"v{n}") for n in range(30)])
    assert outcome.interrupted
    assert len(outcome.done) < 30
    world.restart().apply([vm(f"v{n}") for n in range(30)])[1].raise_for_failure()
    assert len(world.names()) == 30
    assert world.settled()
    world.close()


def test_an_error_in_one_lane_is_that_hosts_value() -> None:
    def bad() -> int:
        raise ValueError("bad")

    for lanes in (SerialWorkers(), ThreadWorkers()):
        found = lanes.run({"a": lambda: 1, "b": bad})
        assert found["a"] == 1
        assert isinstance(found["b"], ValueError)
        assert lanes.run({}) == {}
