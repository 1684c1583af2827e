"""``store check`` looks at the queue: entries against themselves, and against their VMs."""

from __future__ import annotations

import pytest
from sqlalchemy import Update, update

from tests.unit.store.test_queue import ended, entry, starts
from tests.unit.store.values import fleet
from vgpumgr.model.operation import OperationMoved, OperationState, TaskMoved, TaskState
from vgpumgr.model.vm import VmState
from vgpumgr.store import SqlLedger
from vgpumgr.store.admin import maintenance
from vgpumgr.store.schema import queue, vm


def lived(url: str) -> SqlLedger:
    """``a`` runs, ``b`` waits, ``c`` has been cancelled."""
    ledger = fleet(url)
    ledger.enqueue([entry("a"), entry("b"), entry("c")])
    ledger.cancel_queued(["c"])
    _, begun = starts(ledger, "a")
    ledger.reserve(begun)
    ledger.record(
        TaskMoved(task=begun.tasks[0].id, state=TaskState.RUNNING),
        ended(begun, TaskState.DONE, VmState.ACTIVE),
        OperationMoved(operation=begun.operation.id, state=OperationState.DONE),
    )
    return ledger


def found(url: str) -> list[str]:
    problems = maintenance.check(url).problems
    assert all(each.next.startswith("vgpumgr ") for each in problems)
    return [f"{each.what}: {each.why}" for each in problems if "in the queue" in each.what]


def test_a_queue_in_order_has_no_problem(url: str) -> None:
    lived(url)
    assert found(url) == []


def of(name: str, **values: object) -> Update:
    return update(queue).where(queue.c.name == name).values(**values)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (update(vm).values(state="shelved"), "a is running in the queue: its VM is shelved"),
        (update(vm).values(state="deleted"), "a is running in the queue: its VM is deleted"),
        (of("a", vm_id=None), "a is running in the queue: it names no VM"),
        (update(vm).values(name="z"), "a is running in the queue: it names VM z"),
        (of("a", state="waiting"), "a is waiting in the queue: its VM is active"),
        (of("b", state="ended"), "b is ended in the queue: it is not closed"),
        (of("c", state="waiting"), "c is waiting in the queue: it is closed"),
    ],
)
def test_a_check_names_what_is_wrong(url: str, wrong: Update, said: str) -> None:
    ledger = lived(url)
    with ledger._database.write() as connection:
        connection.execute(wrong)
    assert found(url) == [said]


def test_what_an_operation_is_about_is_on_its_way(url: str) -> None:
    ledger = fleet(url)
    ledger.enqueue([entry("a")])
    ledger.reserve(starts(ledger, "a")[1])
    with ledger._database.write() as connection:
        connection.execute(update(vm).values(state="deleting"))
    assert found(url) == []
