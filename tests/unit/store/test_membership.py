"""Hosts on their way in or out: one transaction with the operation that brings or takes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.store.values import allocation, board, fleet, open_ledger, see, start, vm
from vgpumgr.model.errors import Conflict, StaleGeneration
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.operation import (
    ENROL,
    REMOVE,
    OperationRecord,
    OperationState,
    Reservation,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.vm import VmRecord
from vgpumgr.store import SqlLedger

H2 = HostRecord(name="h2", address="root@h2", labels={"rack": "7"})


def begin(ledger: SqlLedger, verb: str, name: str = "h2", **fields: object) -> str:
    """The task of an operation about a host."""
    operation = OperationRecord(
        id=f"op-{verb}-{name}", kind=verb, state=OperationState.RUNNING, epoch=1, started_at=1.0
    )
    task = TaskRecord(
        id=f"task-{verb}-{name}",
        operation=operation.id,
        vm_id="",
        vm=f"host {name}",
        host=name,
        verb=verb,
        steps=(),
    )
    start_ = Reservation(operation=operation, tasks=(task,), **fields)  # type: ignore[arg-type]
    ledger.reserve(start_)
    return task.id


def end(ledger: SqlLedger, task: str, state: TaskState, *, enrolled: bool) -> None:
    before = TaskState.UNDOING if state is TaskState.UNDONE else TaskState.RUNNING
    ledger.record(
        TaskMoved(task=task, state=before), TaskMoved(task=task, state=state, enrolled=enrolled)
    )


def made(owner: VmRecord, gpu: GpuRecord) -> Reservation:
    return start(
        allocation(owner, gpu, (0,)), vms=[owner], gpu_generations={gpu.id: gpu.generation}
    )


def names(ledger: SqlLedger) -> dict[str, Membership]:
    return {each.name: each.membership for each in ledger.hosts()}


@pytest.mark.parametrize("state", [TaskState.DONE, TaskState.UNDONE])
def test_a_host_joins_with_its_task(url: str, state: TaskState) -> None:
    ledger = open_ledger(url)
    task = begin(ledger, ENROL, joining=(H2,))
    assert ledger.host("h2") == replace(H2, membership=Membership.JOINING)
    done = state is TaskState.DONE
    end(ledger, task, state, enrolled=done)
    assert names(ledger) == ({"h2": Membership.MEMBER} if done else {})
    assert not done or ledger.host("h2").labels == H2.labels
    ledger.record(TaskMoved(task=task, state=state, enrolled=done))
    assert names(ledger) == ({"h2": Membership.MEMBER} if done else {})


@pytest.mark.parametrize("state", [TaskState.DONE, TaskState.UNDONE])
def test_a_host_leaves_with_its_task(url: str, state: TaskState) -> None:
    ledger = fleet(url, ("h1", "h2"))
    task = begin(ledger, REMOVE, leaving=("h2",))
    assert names(ledger) == {"h1": Membership.MEMBER, "h2": Membership.LEAVING}
    done = state is TaskState.DONE
    end(ledger, task, state, enrolled=not done)
    assert names(ledger).get("h2") is (None if done else Membership.MEMBER)


def test_what_is_taken_or_in_use_is_refused_and_nothing_is_written(url: str) -> None:
    ledger = fleet(url, ("h1",))
    with pytest.raises(Conflict, match="already enrolled"):
        begin(ledger, ENROL, joining=(replace(H2, address="root@h1"),))
    [gpu] = ledger.gpus()
    owner = vm("a")
    ledger.reserve(made(owner, gpu))
    with pytest.raises(Conflict, match="h1 is in use"):
        begin(ledger, REMOVE, "h1", leaving=("h1",))
    assert names(ledger) == {"h1": Membership.MEMBER}
    assert [each.id for each in ledger.operations() if each.kind in {ENROL, REMOVE}] == []


def test_whoever_planned_for_a_host_that_leaves_plans_again(url: str) -> None:
    ledger = fleet(url, ("h1",))
    [gpu] = ledger.gpus()
    begin(ledger, REMOVE, "h1", leaving=("h1",))
    owner = vm("a")
    with pytest.raises(StaleGeneration):
        ledger.reserve(made(owner, gpu))


def test_a_look_at_it_leaves_it_where_it_is(url: str) -> None:
    ledger = fleet(url, ("h1", "h2"))
    begin(ledger, REMOVE, leaving=("h2",))
    see(ledger, "h2", board("h2", 1))
    ledger.update_host(replace(ledger.host("h2"), cordoned=True))
    assert names(ledger)["h2"] is Membership.LEAVING
