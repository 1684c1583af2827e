"""Moves between two hosts that go wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.movers import BYTES, assert_settled_on, desk, running
from tests.unit.engine.moving import desk_of_two, moved
from tests.world import World
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.steps.live_migration_steps import MoveDomain
from vgpumgr.engine.steps.step import from_record
from vgpumgr.model.domain import DomainState, MoveProgress
from vgpumgr.model.errors import (
    Conflict,
    HostRefused,
    Interrupted,
    OutcomeUnknown,
    StaleGeneration,
    VgpumgrError,
)
from vgpumgr.model.vm import VmState


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with desk_of_two(tmp_path) as made:
        yield made


def test_a_refused_move_leaves_all_as_it_was_and_can_be_tried_again(world: World) -> None:
    before = world.hosts["h1"].left()
    world.hosts["h1"].refuse("migrate")
    with pytest.raises(HostRefused):
        moved(world)
    assert_settled_on(world, "h1")
    assert world.hosts["h1"].left() == before
    moved(world)
    assert_settled_on(world, "h2")


def test_a_move_that_was_cut_goes_on_with_devices_made_anew(world: World) -> None:
    """A device that took part in a move receives no second one (mtty: EBADF)."""

    def cut(phase: str) -> None:
        if phase == "prepare":
            world.hosts["h2"].domains_by_name.pop("desk")
            raise OutcomeUnknown("the connection broke")

    world.hosts["h1"].on_phase = cut
    with pytest.raises(OutcomeUnknown):
        moved(world)
    assert world.vm("desk").state is VmState.MIGRATING
    world.hosts["h1"].on_phase = lambda _: None
    moved(world)
    assert_settled_on(world, "h2")


def test_a_guest_that_ignores_acpi_stays_where_it_runs(world: World) -> None:
    world.hosts["h1"].guests_ignore_acpi = True
    with pytest.raises(VgpumgrError) as late:
        moved(world, cold=True, timeout_s=5.0)
    assert late.value.exit_status == 9
    assert_settled_on(world, "h1")


def test_a_start_that_fails_brings_it_back(world: World) -> None:
    world.hosts["h2"].refuse("start")
    with pytest.raises(HostRefused):
        moved(world, cold=True)
    assert_settled_on(world, "h1")


def test_a_copy_that_differs_is_never_trusted(world: World) -> None:
    h1, h2 = world.hosts["h1"], world.hosts["h2"]

    def spoil(call: str) -> None:
        if call == "file_digest":
            h2.uploads |= {name: b"rotten" for _, name in h2.volumes}

    h2.on_call = spoil
    with pytest.raises(HostRefused, match="is not what was sent"):
        moved(world, cold=True)
    h2.on_call = lambda _: None
    assert_settled_on(world, "h1")
    assert BYTES in h1.uploads.values()


def test_somebody_who_starts_it_meanwhile_wins(world: World) -> None:
    """The copy is older than what runs: it goes, the VM stays."""
    h1, h2 = world.hosts["h1"], world.hosts["h2"]

    def start(call: str) -> None:
        if call == "define":
            h1.domains._change("desk", state=DomainState.RUNNING)

    h2.on_call = start
    with pytest.raises(Conflict, match="domain desk runs on h1"):
        moved(world, cold=True)
    h2.on_call = lambda _: None
    assert_settled_on(world, "h1")


def test_neither_undo_nor_renewal_ends_a_receiver_that_is_kept(world: World) -> None:
    """A finish that began after the look: the receiver is all that is left of the guest."""
    h1, h2 = world.hosts["h1"], world.hosts["h2"]

    def finish_begins(phase: str) -> None:
        if phase == "perform":
            h2.domains._change("desk", persistent=True)
            raise OutcomeUnknown("the connection broke")

    h1.on_phase = finish_begins
    with pytest.raises(OutcomeUnknown):
        moved(world)
    [operation] = world.ledger.operations(open_only=True)
    [task] = world.ledger.tasks(operation.id)
    [step] = [from_record(each) for each in task.steps if each.kind == "MoveDomain"]
    assert isinstance(step, MoveDomain)
    for way in (step.undo, step.renew):
        with pytest.raises(OutcomeUnknown) as unknown:
            way(h1, h2)
        assert "paused on h2 and may run there soon" in unknown.value.why
        assert h2.domains_by_name["desk"].state is DomainState.PAUSED
        assert h1.domains_by_name["desk"].state is DomainState.PAUSED


def test_two_that_run_are_for_an_operator(world: World) -> None:
    def both(phase: str) -> None:
        if phase == "finish":
            world.hosts["h1"].domains._change("desk", state=DomainState.RUNNING)
            raise OutcomeUnknown("the connection broke")

    world.hosts["h1"].on_phase = both
    with pytest.raises(OutcomeUnknown):
        moved(world)
    [operation] = world.ledger.operations(open_only=True)
    for way in (world.engine.resume, world.engine.undo):
        [vm] = way(operation.id).vms
        assert vm.error is not None and "runs on h1 and on h2" in f"{vm.error.why}"
    assert running(world) == ["h1", "h2"]
    assert len(world.ledger.allocations()) == 2


def test_ctrl_c_cancels_a_live_move_and_the_vm_runs_on(world: World) -> None:
    """libvirt ends the move when it is told to; here it notices in its next phase."""
    h1 = world.hosts["h1"]
    h1.moving["desk"] = MoveProgress(total_bytes=100, left_bytes=90)

    def press(phase: str) -> None:
        if phase != "begin":
            return
        world.engine.stop.set()
        while "desk" in h1.moving:
            time.sleep(0.01)
        raise HostRefused("operation aborted by client")

    h1.on_phase = press
    outcome = world.engine.migrate("desk", "h2")
    assert outcome.interrupted
    with pytest.raises(Interrupted):
        outcome.raise_for_failure()
    assert ("cancel_migration", ("desk",)) in h1.calls
    assert running(world) == ["h1"]
    world.engine.stop.clear()
    h1.on_phase = lambda _: None
    world.engine.undo(outcome.operation)
    assert_settled_on(world, "h1")


def test_others_wait_for_a_move_that_has_not_ended(world: World) -> None:
    world.hosts["h1"].refuse("copy_to", OutcomeUnknown("cut"))
    with pytest.raises(OutcomeUnknown):
        moved(world)
    for act in (
        lambda: world.engine.stop_vms(["desk"], force=True, timeout_s=1.0),
        lambda: world.engine.start(["desk"]),
        lambda: world.engine.delete(["desk"], keep_disks=False, force=True),
        lambda: world.engine.migrate("desk", "h1"),
    ):
        with pytest.raises(Conflict):
            act()
    with pytest.raises(Conflict, match="in use"):
        world.ledger.remove_host("h2")
    world.engine.apply([desk()])[1].raise_for_failure()
    assert_settled_on(world, "h2")


def test_a_vm_that_moves_takes_room_on_both_hosts(world: World) -> None:
    world.hosts["h1"].refuse("copy_to", OutcomeUnknown("cut"))
    with pytest.raises(OutcomeUnknown):
        moved(world)
    held = world.ledger.allocations()
    assert sorted(each.host for each in held) == ["h1", "h2"]
    world.engine.refresh()
    fleet = build_fleet(world.engine.view())
    assert [host.free_vcpus for host in fleet.hosts] == [126, 126]
    assert all(not host.foreign_domains for host in fleet.hosts)


def test_what_is_settled_is_not_taken_back(world: World) -> None:
    world.hosts["h1"].refuse("undefine")
    with pytest.raises(HostRefused):
        moved(world)
    [operation] = world.ledger.operations(open_only=True)
    [vm] = world.engine.undo(operation.id).vms
    assert isinstance(vm.error, Conflict) and "resume" in vm.error.next
    world.engine.resume(operation.id).raise_for_failure()
    assert_settled_on(world, "h2")


def test_room_that_was_taken_meanwhile_is_planned_anew(world: World) -> None:
    """The database referees: the target's GPU moved between plan and reservation."""
    other = world.open()
    real = type(other).reserve
    tries: list[int] = []

    class Racing:
        def __getattr__(self, name: str) -> object:
            return getattr(world.ledger, name)

        def reserve(self, start: object) -> None:
            tries.append(1)
            if len(tries) == 1:
                raise StaleGeneration("somebody was faster")
            real(world.ledger, start)  # type: ignore[arg-type]

    world.engine_over(Racing()).migrate("desk", "h2").raise_for_failure()  # type: ignore[arg-type]
    assert len(tries) == 2
    assert_settled_on(world, "h2")
