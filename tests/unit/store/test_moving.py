"""A VM that moves holds units on two hosts; one commit at the end leaves it those of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import func, select

from tests.unit.store.values import allocation, facts, fleet, see, start, task, vm
from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.errors import Conflict, LedgerError, StaleGeneration
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.operation import MIGRATE, StepMoved, StepState, TaskMoved, TaskRecord, TaskState
from vgpumgr.model.vm import VmPlace, VmRecord, VmState
from vgpumgr.store import SqlLedger
from vgpumgr.store.ledger.gpu_texts import load_gpu
from vgpumgr.store.schema import unit

PLACE = VmPlace(host="h2", numa_node=1, cpus=(4, 5))


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    opened = fleet(url, ["h1", "h2"])
    yield opened
    opened.close()


def settled(ledger: SqlLedger, name: str = "desk") -> tuple[VmRecord, Allocation]:
    """A VM on h1 that was made and holds two units."""
    made = vm(name, numa_node=0, cpus=(0, 1))
    held = allocation(made, ledger.gpus("h1")[0], [0, 1])
    begun = start(held, vms=[made])
    ledger.reserve(begun)
    [job] = begun.tasks
    ledger.record(TaskMoved(task=job.id, state=TaskState.RUNNING))
    ended = TaskMoved(
        task=job.id,
        state=TaskState.DONE,
        vm_id=made.id,
        vm_state=VmState.ACTIVE,
        allocations=AllocationState.ACTIVE,
    )
    ledger.record(ended)
    return ledger.vm(name), held


def move(ledger: SqlLedger, slots: tuple[int, ...] = (0, 1)) -> tuple[TaskRecord, Allocation]:
    """It is on its way to h2."""
    before = ledger.vm("desk")
    going = replace(before, state=VmState.MIGRATING, moving_to=PLACE)
    held = allocation(before, ledger.gpus("h2")[0], slots)
    begun = start(held)
    job = replace(task(before, begun.operation.id, MIGRATE), peer="h2")
    steps = (replace(job.steps[0], host="h2"), *job.steps[1:])
    job = replace(job, steps=steps)
    ledger.reserve(replace(begun, tasks=(job,), changed_vms=(going,)))
    return job, held


def end(ledger: SqlLedger, job: TaskRecord, *, arrived: bool) -> None:
    on_its_way = TaskState.RUNNING if arrived else TaskState.UNDOING
    ledger.record(TaskMoved(task=job.id, state=on_its_way))
    ledger.record(
        TaskMoved(
            task=job.id,
            state=TaskState.DONE if arrived else TaskState.UNDONE,
            vm_id=job.vm_id,
            vm_state=VmState.ACTIVE,
            arrived=arrived,
        )
    )


def units(ledger: SqlLedger) -> int:
    with ledger._database.read() as connection:
        return connection.execute(select(func.count()).select_from(unit)).scalar_one()


def test_both_places_are_held_until_it_ends(ledger: SqlLedger) -> None:
    settled(ledger)
    job, new = move(ledger)
    found = ledger.vm("desk")
    assert (found.host, found.moving_to, found.state) == ("h1", PLACE, VmState.MIGRATING)
    assert {(each.host, each.state) for each in ledger.allocations()} == {
        ("h1", AllocationState.ACTIVE),
        ("h2", AllocationState.RESERVED),
    }
    assert units(ledger) == 4
    [kept] = ledger.tasks(job.operation)
    assert (kept.peer, kept.hosts) == ("h2", ("h1", "h2"))
    assert [each.host for each in kept.steps] == ["h2", ""]
    other = vm("other")
    with pytest.raises(StaleGeneration):
        ledger.reserve(start(allocation(other, ledger.gpus("h2")[0], new.slots), vms=[other]))


def test_an_arrival_gives_the_old_place_back_in_the_same_commit(ledger: SqlLedger) -> None:
    _, old = settled(ledger)
    job, new = move(ledger)
    end(ledger, job, arrived=True)
    found = ledger.vm("desk")
    assert (found.host, found.numa_node, found.cpus) == ("h2", 1, (4, 5))
    assert (found.moving_to, found.state, found.running) == (None, VmState.ACTIVE, True)
    [held] = ledger.allocations()
    assert (held.id, held.state) == (new.id, AllocationState.ACTIVE)
    closed = {each.id: each.state for each in ledger.allocations(released=True)}
    assert closed[old.id] is AllocationState.RELEASED
    assert units(ledger) == 2
    other = vm("other")
    ledger.reserve(start(allocation(other, ledger.gpus("h1")[0], old.slots), vms=[other]))


def test_one_that_stays_gives_the_new_place_back(ledger: SqlLedger) -> None:
    before, old = settled(ledger)
    job, new = move(ledger)
    end(ledger, job, arrived=False)
    found = ledger.vm("desk")
    assert (found.host, found.numa_node, found.cpus) == ("h1", before.numa_node, before.cpus)
    assert (found.moving_to, found.state) == (None, VmState.ACTIVE)
    [held] = ledger.allocations()
    assert (held.id, held.state) == (old.id, AllocationState.ACTIVE)
    assert new.id in {each.id for each in ledger.allocations(released=True)}
    assert units(ledger) == 2


def test_saying_it_twice_changes_nothing(ledger: SqlLedger) -> None:
    settled(ledger)
    job, _ = move(ledger)
    end(ledger, job, arrived=True)
    before = (ledger.vm("desk"), ledger.allocations(released=True))
    ended = TaskMoved(task=job.id, state=TaskState.DONE, vm_id=job.vm_id, arrived=False)
    ledger.record(ended)
    assert (ledger.vm("desk"), ledger.allocations(released=True)) == before


def test_an_illegal_end_moves_nothing(ledger: SqlLedger) -> None:
    settled(ledger)
    job, _ = move(ledger)
    with pytest.raises(LedgerError):
        ledger.record(
            TaskMoved(task=job.id, state=TaskState.DONE, vm_id=job.vm_id, arrived=True),
            StepMoved(task=job.id, seq=0, state=StepState.DONE),
        )
    assert ledger.vm("desk").moving_to == PLACE
    assert len(ledger.allocations()) == 2


def test_two_moves_of_one_vm_cannot_both_begin(ledger: SqlLedger) -> None:
    """The second was planned from the record before the first."""
    before, _ = settled(ledger)
    move(ledger)
    going = replace(before, state=VmState.MIGRATING, moving_to=PLACE)
    with pytest.raises(StaleGeneration):
        ledger.reserve(replace(start(), changed_vms=(going,)))


def test_one_device_of_a_host_has_one_holder(ledger: SqlLedger) -> None:
    settled(ledger)
    _, new = move(ledger)
    other = vm("other")
    taken = allocation(other, ledger.gpus("h2")[0], [4], device=new.device)
    with pytest.raises(StaleGeneration):
        ledger.reserve(start(taken, vms=[other]))


def test_a_host_that_a_vm_moves_to_stays(ledger: SqlLedger) -> None:
    """Also where the VM has no GPU part to hold there."""
    before, _ = settled(ledger)
    going = replace(before, state=VmState.MIGRATING, moving_to=PLACE)
    ledger.reserve(replace(start(), changed_vms=(going,)))
    with pytest.raises(Conflict, match="in use"):
        ledger.remove_host("h2")


def test_type_lists_of_an_older_ledger_are_read(ledger: SqlLedger) -> None:
    """Schema 2 kept them under a name that is a field of the facts now."""
    text = (
        '{"device":"0000:41:00.0","path":"/p","model":"A40","vfs":[{"number":0,"address":'
        '"0000:41:00.4"}],"vf_types":[[{"type_id":"nvidia-557","name":"NVIDIA A40-1B",'
        '"available":1}]],"vf_types_of":[0]}'
    )
    read = load_gpu(text)
    assert isinstance(read, GpuFacts)
    assert read.vfs[0].mdev_types[0].type_id == "nvidia-557"
    see(ledger, "h1", read)
    assert facts("h1", read).gpus == (read,)
    assert ledger.gpus("h1")[-1].facts.vfs == read.vfs
