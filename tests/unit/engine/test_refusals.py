"""What refuses: who goes elsewhere, what counts against whom, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.world import World, effects, vm, with_disk
from vgpumgr.engine.migration.moves_within_host import move_within_host
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.model.errors import BadImage, HostRefused, NotPermitted, OutcomeUnknown, VgpumgrError
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.operation import OperationState, TaskState
from vgpumgr.model.refusal import Tolerance
from vgpumgr.model.vm import Affinity, PlacementPolicy

MINUTE = 60.0
EIO = HostRefused("the kernel said no", errno_name="EIO")


def hosts(count: int) -> list[FakeHost]:
    numbers = range(1, count + 1)
    return [FakeHost(name=f"h{n}", gpus=[t4(n)], parents=[t4_parent(n)]) for n in numbers]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, *hosts(3))
    made.engine.refresh()
    yield made
    made.close()


def apply(world: World, name: str, *among: str) -> Outcome:
    first = PlacementPolicy.BREADTH_FIRST  # h1, as long as it is as empty as the others
    spec = vm(name, "T4-4Q", affinity=Affinity(hosts=among), policy=first)
    return world.engine.apply([spec])[1]


def state(world: World, host: str) -> GpuState:
    return world.ledger.gpus(host)[0].state


def test_the_next_place_is_tried_in_the_same_operation(world: World) -> None:
    world.host.refuse("mdev_create", times=9)
    outcome = apply(world, "web")
    assert [(each.host, each.state) for each in outcome.vms] == [("h2", TaskState.DONE)]
    [operation] = world.ledger.operations()
    assert operation.state is OperationState.DONE
    tasks = world.ledger.tasks(operation.id)
    assert [(each.host, each.state) for each in tasks] == [
        ("h1", TaskState.UNDONE),
        ("h2", TaskState.DONE),
    ]
    assert world.settled() and world.vm("web").host == "h2"
    [refusal] = world.ledger.refusals()
    assert (refusal.host, refusal.vm, refusal.why) == ("h1", "web", "EIO, the kernel said no")


def test_every_place_is_tried_once_and_told(world: World) -> None:
    for host in world.hosts.values():
        host.refuse("mdev_create", times=9)
    outcome = apply(world, "web")
    with pytest.raises(HostRefused, match="could be made nowhere: 3 places refused") as caught:
        outcome.raise_for_failure()
    assert all(f"{name} 0000:" in caught.value.why for name in world.hosts)
    assert [sum(name == "mdev_create" for name in effects(h)) for h in world.hosts.values()] == [
        1
    ] * 3
    assert world.names() == [] and world.ledger.operations()[0].state is OperationState.UNDONE


def test_no_more_than_four_others_are_tried(tmp_path: Path) -> None:
    world = World(tmp_path, *hosts(7))
    world.engine.refresh()
    for host in world.hosts.values():
        host.refuse("mdev_create", times=9)
    assert "5 places refused" in str(apply(world, "web").vms[0].error)
    world.close()


@pytest.mark.parametrize(
    "error",
    [BadImage("it is not whole"), OutcomeUnknown("the call was aborted")],
    ids=["the request's fault", "nobody knows"],
)
def test_what_is_no_refusal_is_not_tried_elsewhere(world: World, error: VgpumgrError) -> None:
    world.host.refuse("mdev_create", error)
    apply(world, "web")
    assert effects(world.hosts["h2"]) == [] and world.ledger.refusals() == ()


def test_back_off_grows_and_a_success_ends_it(world: World) -> None:
    world.host.refuse("mdev_create", times=2)
    rests = []
    for _ in range(2):
        apply(world, "web", "h1")
        rests.append(round(world.ledger.refusals()[-1].left_s))
    assert rests == [60, 120]
    world.clock.wait(2 * MINUTE)
    assert not any(each.left_s for each in world.ledger.refusals())
    apply(world, "web", "h1").raise_for_failure()
    assert world.ledger.refusals() == () and state(world, "h1") is GpuState.HEALTHY


def test_what_is_in_back_off_is_chosen_last_but_chosen(world: World) -> None:
    world.host.refuse("mdev_create")
    apply(world, "first", "h1")
    assert apply(world, "second").vms[0].host != "h1"
    assert apply(world, "third", "h1").vms[0].state is TaskState.DONE, "nowhere else may it go"


def test_three_operations_quarantine_a_gpu_and_many_vms_of_one_do_not(world: World) -> None:
    world.host.refuse("mdev_create", times=99)
    only = Affinity(hosts=("h1",))
    many = [vm(f"many-{n}", "T4-1Q", affinity=only) for n in range(5)]
    world.engine.apply(many)
    assert state(world, "h1") is GpuState.HEALTHY
    for _ in range(2):
        apply(world, "web", "h1")
    assert state(world, "h1") is GpuState.QUARANTINED
    assert "it refused 3 times" in world.ledger.gpus("h1")[0].state_why
    world.engine.lift(world.ledger.gpus("h1")[0].id)
    assert (state(world, "h1"), world.ledger.refusals()) == (GpuState.HEALTHY, ())


def test_how_many_refusals_quarantine_is_a_setting(world: World) -> None:
    world.engine = replace(world.engine, tolerance=Tolerance(most=0))
    world.host.refuse("mdev_create", times=99)
    for _ in range(5):
        apply(world, "web", "h1")
    assert state(world, "h1") is GpuState.HEALTHY


def test_a_host_is_cordoned_when_others_took_three_vms_that_it_did_not_start(world: World) -> None:
    world.host.refuse("start", times=99)
    for name in ("one", "two", "three"):
        assert not world.ledger.host("h1").cordoned
        world.clock.wait(10 * MINUTE)
        apply(world, name).raise_for_failure()
        assert world.vm(name).host != "h1"
    assert world.ledger.host("h1").cordoned
    world.ledger.update_host(replace(world.ledger.host("h1"), cordoned=False))
    assert world.ledger.refusals() == ()


def test_a_host_that_bars_us_counts_like_one_that_starts_nothing(world: World) -> None:
    world.host.refuse("mdev_create", NotPermitted("no sudo rule"))
    assert apply(world, "web").vms[0].state is TaskState.DONE
    [refusal] = world.ledger.refusals()
    assert (refusal.host, refusal.gpu, refusal.counts) == ("h1", "", True)


def test_a_move_to_another_gpu_tells_of_its_host_what_any_start_does(tmp_path: Path) -> None:
    here = FakeHost(name="h1", gpus=[t4(1), t4(2)], parents=[t4_parent(1), t4_parent(2)])
    world = World(tmp_path, here)
    world.engine.refresh()
    apply(world, "web").raise_for_failure()
    here.refuse("start", EIO)
    [refused] = move_within_host(world.engine, "web").vms
    assert refused.state is TaskState.UNDONE
    assert [(each.host, each.gpu) for each in world.ledger.refusals()] == [("h1", "")]
    move_within_host(world.engine, "web").raise_for_failure()
    assert world.ledger.refusals() == ()
    world.close()


def test_what_was_taken_back_by_request_is_not_tried_elsewhere(world: World) -> None:
    world.host.refuse("mdev_create")
    world.host.refuse("mdev_look", OutcomeUnknown("the call was aborted"), times=9)
    outcome = apply(world, "web", "h1", "h2")
    assert outcome.vms[0].state is TaskState.UNDOING
    world.host.refusals.clear()
    world.engine.undo(outcome.operation)
    assert world.names() == [] and effects(world.hosts["h2"]) == []


def test_the_text_of_its_seed_goes_along(world: World) -> None:
    """The ledger forgets it with the VM that was taken back."""
    world.host.refuse("mdev_create")
    spec = with_disk("web", policy=PlacementPolicy.BREADTH_FIRST)
    [outcome] = world.engine.apply([spec])[1].vms
    assert (outcome.host, outcome.state) == ("h2", TaskState.DONE)
    assert any(b"#cloud-config" in each for each in world.hosts["h2"].uploads.values())
    assert world.vm("web").spec.cloud_init == spec.cloud_init
