"""The queue's rows: entered, moved with what moves them, closed, never deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.store.values import fleet, start, vm
from vgpumgr.model.errors import Conflict, NotFound, StaleGeneration
from vgpumgr.model.operation import Reservation, TaskMoved, TaskState
from vgpumgr.model.queue import QueueEntry, QueueMoved, QueueState
from vgpumgr.model.vm import Terms, VmRecord, VmSpec, VmState
from vgpumgr.store import SqlLedger

TERMS = Terms(priority=100, spot=True, runtime_s=60.0, after=("b",), together="g")


def entry(name: str, since: float = 10.0, **fields: object) -> QueueEntry:
    spec = VmSpec(name=name, vcpus=2, memory_mib=2048, queue=TERMS)
    values: dict[str, object] = {
        "id": f"q-{name}",
        "vm": spec,
        "state": QueueState.WAITING,
        "since": since,
    }
    return QueueEntry(**(values | fields))  # type: ignore[arg-type]


def starts(ledger: SqlLedger, name: str) -> tuple[VmRecord, Reservation]:
    """A reservation that makes the VM of a waiting entry."""
    made = vm(name)
    moved = QueueMoved(
        entry=f"q-{name}", before=QueueState.WAITING, state=QueueState.RUNNING, vm_id=made.id
    )
    begun = start(vms=[made], queue=(moved,))
    return made, begun


def ended(begun: Reservation, state: TaskState, vm_state: VmState) -> TaskMoved:
    [task] = begun.tasks
    return TaskMoved(
        task=task.id, state=state, error="the host said no", vm_id=task.vm_id, vm_state=vm_state
    )


def test_those_are_first_that_have_waited_longest(url: str) -> None:
    ledger = fleet(url)
    late, early = entry("a", 20.0), entry("c", 5.0)
    ledger.enqueue([late, early])
    assert ledger.queue() == (early, late)
    assert [each.event for each in ledger.audit(vm="a", event="queue")] == ["queue.waiting"]


def test_a_name_waits_once_and_nothing_of_the_rest_is_entered(url: str) -> None:
    ledger = fleet(url)
    ledger.enqueue([entry("a")])
    with pytest.raises(StaleGeneration, match="is in the queue"):
        ledger.enqueue([entry("b"), entry("a", id="q-other")])
    assert [each.name for each in ledger.queue()] == ["a"]


def test_it_is_cancelled_while_it_waits_and_stays_as_history(url: str) -> None:
    ledger = fleet(url)
    ledger.enqueue([entry("a"), entry("b")])
    _, begun = starts(ledger, "b")
    ledger.reserve(begun)
    with pytest.raises(Conflict, match="b runs"):
        ledger.cancel_queued(["a", "b"])
    with pytest.raises(NotFound):
        ledger.cancel_queued(["a", "nobody"])
    assert [each.name for each in ledger.queue()] == ["a", "b"]
    ledger.cancel_queued(["a", "a"])
    assert [each.name for each in ledger.queue()] == ["b"]
    [closed, _] = ledger.queue(["a"])
    assert (closed.state, closed.closed_at is not None) == (QueueState.CANCELLED, True)
    ledger.enqueue([entry("a", id="q-again")])
    assert [each.state for each in ledger.queue(["a"]) if each.name == "a"] == [
        QueueState.CANCELLED,
        QueueState.WAITING,
    ]


def test_whoever_cancels_first_keeps_the_vm_from_being_made(url: str) -> None:
    ledger = fleet(url)
    ledger.enqueue([entry("a")])
    _, begun = starts(ledger, "a")
    ledger.cancel_queued(["a"])
    with pytest.raises(StaleGeneration, match="the queue changed"):
        ledger.reserve(begun)
    assert (ledger.vms(), ledger.operations()) == ((), ())


@pytest.mark.parametrize(
    ("state", "vm_state", "after"),
    [
        (TaskState.DONE, VmState.ACTIVE, QueueState.RUNNING),
        (TaskState.UNDONE, VmState.DELETED, QueueState.WAITING),
        (TaskState.DONE, VmState.DELETED, QueueState.DELETED),
    ],
)
def test_what_its_vm_comes_to_is_what_the_entry_comes_to(
    url: str, state: TaskState, vm_state: VmState, after: QueueState
) -> None:
    ledger = fleet(url)
    ledger.enqueue([entry("a")])
    made, begun = starts(ledger, "a")
    ledger.reserve(begun)
    before = TaskState.UNDOING if state is TaskState.UNDONE else TaskState.RUNNING
    ledger.record(TaskMoved(task=begun.tasks[0].id, state=before))
    ledger.record(ended(begun, state, vm_state))
    [found] = ledger.queue(["a"])
    waits_again = after is QueueState.WAITING
    assert (found.state, found.vm_id) == (after, "" if waits_again else made.id)
    assert found.why == ("the host said no" if waits_again else "")
    assert (found.closed_at is not None) == (after is QueueState.DELETED)


def test_a_shelved_vm_whose_start_is_taken_back_waits_with_its_disks(url: str) -> None:
    ledger = fleet(url)
    ledger.enqueue([entry("a")])
    made, begun = starts(ledger, "a")
    ledger.reserve(begun)
    ledger.record(TaskMoved(task=begun.tasks[0].id, state=TaskState.UNDOING))
    ledger.record(ended(begun, TaskState.UNDONE, VmState.SHELVED))
    [found] = ledger.queue()
    assert (found.state, found.vm_id) == (QueueState.WAITING, made.id)


def test_a_preempted_one_waits_since_it_was_asked_for(url: str) -> None:
    ledger = fleet(url)
    ledger.enqueue([entry("a", 5.0)])
    made, begun = starts(ledger, "a")
    ledger.reserve(begun)
    again = QueueMoved(
        entry="q-a",
        before=QueueState.RUNNING,
        state=QueueState.WAITING,
        why="preempted for b",
        preempted=True,
    )
    changed = replace(ledger.vm("a"))
    ledger.reserve(start(changed_vms=(changed,), queue=(again,)))
    [found] = ledger.queue()
    assert (found.since, found.preempted, found.vm_id) == (5.0, 1, made.id)
    assert ledger.audit(vm="a", event="queue.waiting", limit=1)[0].detail == "preempted for b"
