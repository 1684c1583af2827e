"""`serve` ends what a dead worker left, and leaves alone what a live one works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.serving import Killed, Served, kill_at, live_on, serving
from tests.world import World, effects, vm, with_disk
from vgpumgr.engine.controller.controller_events import EventKind
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import HostRefused, OutcomeUnknown
from vgpumgr.model.operation import OperationState, TaskState
from vgpumgr.store import SqlLedger

pytestmark = pytest.mark.thorough

FULL = with_disk("web", "T4-4Q")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    hosts = (FakeHost("h1"), FakeHost("h2", gpus=[t4(1)], parents=[t4_parent(1)]))
    made = World(tmp_path, *hosts)
    yield made
    made.close()


def killed(world: World, work: Callable[[], object]) -> Served:
    """A worker is killed in the middle of its work; a controller comes."""
    with pytest.raises(Killed):
        work()
    live_on(world)
    world.restart()
    return serving(world)


@pytest.mark.parametrize("verb", ["volume_create", "mdev_create", "define", "start"])
def test_a_creation_whose_worker_was_killed_is_finished(world: World, verb: str) -> None:
    kill_at(world, verb)
    served = killed(world, lambda: world.engine.apply([FULL]))
    served.serve(5)
    assert world.settled()
    (operation,) = world.ledger.operations()
    assert operation.state is OperationState.DONE
    assert operation.summary == "its process had died; serve closed the operation"
    (event,) = served.told(EventKind.OPERATION_ENDED)
    assert event.operation == operation.id


def test_vms_of_one_operation_on_two_hosts_are_finished_by_both_turns(world: World) -> None:
    kill_at(world, "start", after=1)
    served = killed(world, lambda: world.engine.apply([vm(f"v{n}", "T4-4Q") for n in range(6)]))
    served.serve(5)
    assert world.settled()
    assert {each.host for each in world.ledger.vms()} == {"h1", "h2"}
    assert len(served.told(EventKind.OPERATION_ENDED)) == 1


def test_a_creation_that_the_host_refuses_now_is_taken_back(world: World) -> None:
    empty = {name: host.left() for name, host in world.hosts.items()}
    kill_at(world, "define")
    served = killed(world, lambda: world.engine.apply([FULL]))
    for host in world.hosts.values():
        host.refuse("define")
    served.serve(5)
    assert {name: host.left() for name, host in world.hosts.items()} == empty
    assert (world.names(), world.free_slots()) == ([], 32)
    assert world.ledger.operations()[0].state is OperationState.UNDONE


def test_a_cut_undo_goes_on(world: World) -> None:
    for host in world.hosts.values():
        host.refuse("start")
    kill_at(world, "mdev_remove")
    served = killed(world, lambda: world.engine.apply([FULL]))
    served.serve(5)
    assert (world.names(), world.free_slots()) == ([], 32)
    assert not world.ledger.operations(open_only=True)


def test_a_deletion_whose_worker_was_killed_is_finished(world: World) -> None:
    world.engine.apply([FULL])
    kill_at(world, "undefine")
    served = killed(world, lambda: world.engine.delete(["web"], keep_disks=False, force=True))
    served.serve(5)
    assert (world.names(), world.free_slots()) == ([], 32)


def test_a_live_worker_is_left_alone(world: World) -> None:
    world.host.refuse("define", OutcomeUnknown("cut"))
    world.hosts["h2"].refuse("define", OutcomeUnknown("cut"))
    _, outcome = world.engine.apply([FULL])
    assert world.ledger.claim_operation(outcome.operation)
    before = [effects(host) for host in world.hosts.values()]
    served = Served(world.engine_over(world.open()))
    served.serve(100, beat_s=5)
    assert [effects(host) for host in world.hosts.values()] == before
    assert [each.id for each in world.ledger.operations(open_only=True)] == [outcome.operation]
    assert not served.told(EventKind.DRIFT)
    world.close()


class Late:
    """The ledger of a controller that finds every operation taken just before it asks for it."""

    def __init__(self, ledger: object, first: SqlLedger) -> None:
        self._ledger = ledger
        self._first = first

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def claim_operation(self, operation: str) -> bool:
        assert self._first.claim_operation(operation)
        return False


def test_what_another_controller_takes_first_is_no_difference(world: World) -> None:
    kill_at(world, "start", after=1)
    with pytest.raises(Killed):
        world.engine.apply([vm(f"v{n}", "T4-4Q") for n in range(6)])
    live_on(world)
    world.restart()
    first = world.open()
    served = Served(world.engine_over(Late(world.ledger, first)))  # type: ignore[arg-type]
    served.serve(5)
    assert not served.told(EventKind.DRIFT)
    assert world.ledger.operations(open_only=True)
    first.close()
    served = serving(world)
    served.serve(60)
    assert world.settled()


def test_an_operation_whose_tasks_had_all_ended_is_only_closed(world: World) -> None:
    class Cut(BaseException):
        pass

    def cut(outcome: object) -> None:
        raise Cut

    world.engine = world.engine_over(world.ledger)
    object.__setattr__(world.engine, "progress", cut)
    with pytest.raises(Cut):
        world.engine.apply([vm("a", "T4-4Q")])
    world.restart()
    calls = [effects(host) for host in world.hosts.values()]
    serving(world).serve(40)
    assert world.ledger.operations()[0].state is OperationState.DONE
    assert [effects(host) for host in world.hosts.values()] == calls


def test_a_start_that_was_cut_gives_way_to_a_newer_stop(world: World) -> None:
    world.engine.apply([FULL])
    host = world.hosts[world.vm("web").host]
    world.engine.stop_vms(["web"], force=True, timeout_s=1)
    kill_at(world, "start")
    with pytest.raises(Killed):
        world.engine.start(["web"])
    live_on(world)
    world.restart().stop_vms(["web"], force=True, timeout_s=1).raise_for_failure()
    serving(world).serve(40)
    assert host.domains_by_name["web"].state is DomainState.SHUTOFF
    assert not world.vm("web").running
    assert not world.ledger.operations(open_only=True)
    (start,) = (each for each in world.ledger.operations() if each.kind == "vm start")
    (task,) = world.ledger.tasks(start.id)
    assert (task.state, task.error) == (
        TaskState.FAILED,
        "superseded by a newer operation on this VM",
    )


def test_a_start_that_was_cut_is_finished_when_nothing_came_since(world: World) -> None:
    world.engine.apply([FULL])
    world.engine.stop_vms(["web"], force=True, timeout_s=1)
    kill_at(world, "start")
    served = killed(world, lambda: world.engine.start(["web"]))
    served.serve(5)
    assert world.vm("web").running
    assert world.settled()


def test_what_goes_neither_forward_nor_back_is_named_and_tried_again_ever_more_rarely(
    world: World,
) -> None:
    world.engine.apply([FULL])
    host = world.hosts[world.vm("web").host]
    kill_at(world, "undefine")
    served = killed(world, lambda: world.engine.delete(["web"], keep_disks=False, force=True))
    host.refuse("undefine", HostRefused("libvirt said no"), times=1000)
    served.serve(600, beat_s=20)
    tries = [name for name in effects(host) if name == "undefine"]
    assert 5 <= len(tries) <= 12
    (event,) = served.told(EventKind.NEEDS_OPERATOR)
    assert "delete of web" in event.text and "libvirt said no" in event.text
    (open_,) = world.ledger.operations(open_only=True)
    assert open_.summary.startswith("needs-operator: delete of web on")
    assert served.status.open_operations[0].summary == open_.summary
    host.refusals.clear()
    served.serve(600, beat_s=30)
    assert world.names() == []


def test_a_host_that_does_not_answer_needs_no_operator(world: World) -> None:
    kill_at(world, "define")
    served = killed(world, lambda: world.engine.apply([FULL]))
    host = world.hosts[world.vm("web").host]
    host.down = True
    served.serve(300, beat_s=5)
    assert not served.told(EventKind.NEEDS_OPERATOR)
    host.down = False
    served.serve(31)
    assert world.settled()


def test_an_operation_on_a_host_that_left_the_fleet_is_ended(world: World) -> None:
    world.engine.apply([FULL])
    name = world.vm("web").host
    kill_at(world, "shutdown")
    with pytest.raises(Killed):
        world.engine.stop_vms(["web"], force=False, timeout_s=1)
    live_on(world)
    world.restart().delete(["web"], keep_disks=False, force=True).raise_for_failure()
    world.ledger.remove_host(name)
    serving(world).serve(5)
    assert not world.ledger.operations(open_only=True)


def test_a_controller_that_is_killed_is_followed_by_one_that_goes_on(world: World) -> None:
    kill_at(world, "define")
    first = killed(world, lambda: world.engine.apply([FULL]))
    kill_at(world, "start")
    second = killed(world, lambda: first.serve(5))
    second.serve(5)
    assert world.settled()


def test_one_host_that_refuses_does_not_make_another_wait(world: World) -> None:
    world.engine.apply([vm(f"v{n}", "T4-4Q") for n in range(4)])
    names = world.names()
    kill_at(world, "undefine")
    served = killed(world, lambda: world.engine.delete(names, keep_disks=False, force=True))
    world.hosts["h1"].refuse("undefine", HostRefused("libvirt said no"), times=1000)
    world.hosts["h2"].down = True
    served.serve(400, beat_s=10)
    world.hosts["h2"].down = False
    served.serve(31)
    assert {each.host for each in world.ledger.vms()} == {"h1"}
