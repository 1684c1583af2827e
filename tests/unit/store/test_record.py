"""record(): legal moves only, durable before it returns, one commit for many callers."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest
from sqlalchemy import update

from tests.unit.store.values import allocation, fleet, start, task, vm
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.errors import LedgerError
from vgpumgr.model.operation import (
    OperationMoved,
    OperationState,
    Reservation,
    StepMoved,
    StepState,
    TaskMoved,
    TaskState,
)
from vgpumgr.model.vm import VmState
from vgpumgr.store import SqlLedger, open_ledger
from vgpumgr.store import schema as tables
from vgpumgr.store.database.connections import GroupWriter


@pytest.fixture
def ledger(url: str):
    opened = fleet(url)
    yield opened
    opened.close()


@pytest.fixture
def made(ledger: SqlLedger) -> Reservation:
    """One VM being created: one task of two steps, two units."""
    desk = vm("desk")
    reservation = start(allocation(desk, ledger.gpus()[0], [0, 1]), vms=[desk])
    ledger.reserve(reservation)
    return reservation


LEGAL_STEPS = {
    ("planned", "intent"),
    ("intent", "done"),
    ("intent", "undo-intent"),
    ("done", "undo-intent"),
    ("undo-intent", "undone"),
} | {(state.value, state.value) for state in StepState}

LEGAL_TASKS = {
    ("pending", "running"),
    ("pending", "undoing"),
    ("pending", "failed"),
    ("running", "undoing"),
    ("running", "done"),
    ("running", "failed"),
    ("undoing", "undone"),
    ("undoing", "failed"),
} | {(state.value, state.value) for state in TaskState}

LEGAL_VMS = {
    ("reserved", "active"),
    ("reserved", "deleting"),
    ("reserved", "deleted"),
    ("active", "migrating"),
    ("migrating", "active"),
    ("active", "deleting"),
    ("active", "shelved"),
    ("reserved", "shelved"),
    ("shelved", "deleting"),
    ("active", "deleted"),
    ("deleting", "active"),
    ("deleting", "deleted"),
} | {(state.value, state.value) for state in VmState}

FINAL_OPERATIONS = {"done", "undone", "failed"}


def put(ledger: SqlLedger, table: object, state: str) -> None:
    """Set a state behind the ledger's back."""
    with ledger._database.write() as connection:
        connection.execute(update(table).values(state=state))  # type: ignore[arg-type]


def check(ledger: SqlLedger, moved: object, legal: bool) -> None:
    if legal:
        ledger.record(moved)  # type: ignore[arg-type]
    else:
        with pytest.raises(LedgerError, match="cannot go from"):
            ledger.record(moved)  # type: ignore[arg-type]


def test_steps_move_only_as_the_journal_allows(ledger: SqlLedger, made: Reservation) -> None:
    [one] = made.tasks
    for before, after in product(StepState, StepState):
        put(ledger, tables.step, before)
        legal = (before, after) in LEGAL_STEPS
        check(ledger, StepMoved(task=one.id, seq=1, state=after), legal)
        states = [each.state for each in ledger.tasks(made.operation.id)[0].steps]
        assert states == [before, after if legal else before]


def test_tasks_move_only_forward(ledger: SqlLedger, made: Reservation) -> None:
    [one] = made.tasks
    for before, after in product(TaskState, TaskState):
        put(ledger, tables.task, before)
        legal = (before, after) in LEGAL_TASKS
        check(ledger, TaskMoved(task=one.id, state=after), legal)
        assert ledger.tasks(made.operation.id)[0].state == (after if legal else before)


def test_vms_move_only_forward_and_a_deleted_one_never(
    ledger: SqlLedger, made: Reservation
) -> None:
    [one] = made.tasks
    for before, after in product(VmState, VmState):
        put(ledger, tables.vm, before)
        moved = TaskMoved(task=one.id, state=TaskState.PENDING, vm_state=after)
        check(ledger, moved, (before, after) in LEGAL_VMS)


def test_an_ended_operation_stays_as_it_ended(ledger: SqlLedger, made: Reservation) -> None:
    for before, after in product(OperationState, OperationState):
        put(ledger, tables.operation, before)
        moved = OperationMoved(operation=made.operation.id, state=after)
        check(ledger, moved, before not in FINAL_OPERATIONS or before == after)


def test_transitions_of_what_is_not_there_are_refused(ledger: SqlLedger) -> None:
    for moved in (
        StepMoved(task="t", seq=0, state=StepState.INTENT),
        TaskMoved(task="t", state=TaskState.RUNNING),
        OperationMoved(operation="o", state=OperationState.DONE),
    ):
        with pytest.raises(LedgerError, match="the ledger has no"):
            ledger.record(moved)


def test_details_and_errors_are_written_as_given(ledger: SqlLedger, made: Reservation) -> None:
    [one] = made.tasks
    ledger.record(
        StepMoved(task=one.id, seq=0, state=StepState.INTENT, detail="why \udcff"),
        TaskMoved(task=one.id, state=TaskState.RUNNING, error="cut"),
    )
    [read] = ledger.tasks(made.operation.id)
    assert (read.steps[0].detail, read.error) == ("why ?", "cut")
    ledger.record(TaskMoved(task=one.id, state=TaskState.RUNNING))
    assert ledger.tasks(made.operation.id)[0].error == ""


def test_one_call_is_all_or_nothing(ledger: SqlLedger, made: Reservation) -> None:
    [one] = made.tasks
    with pytest.raises(LedgerError):
        ledger.record(
            StepMoved(task=one.id, seq=0, state=StepState.INTENT),
            StepMoved(task=one.id, seq=1, state=StepState.DONE),
        )
    assert {each.state for each in ledger.tasks(made.operation.id)[0].steps} == {StepState.PLANNED}
    ledger.record()


def test_the_end_of_a_creation_makes_vm_and_allocations_active(
    ledger: SqlLedger, made: Reservation
) -> None:
    [one] = made.tasks
    ledger.record(
        TaskMoved(task=one.id, state=TaskState.RUNNING, vm_running=False),
    )
    assert ledger.vm("desk").running is False
    ledger.record(
        TaskMoved(
            task=one.id,
            state=TaskState.DONE,
            vm_id=one.vm_id,
            vm_state=VmState.ACTIVE,
            vm_running=True,
            allocations=AllocationState.ACTIVE,
        )
    )
    assert (ledger.vm("desk").state, ledger.vm("desk").running) == (VmState.ACTIVE, True)
    assert [each.state for each in ledger.allocations()] == [AllocationState.ACTIVE]


def test_the_vm_of_a_task_is_found_without_naming_it(ledger: SqlLedger, made: Reservation) -> None:
    [one] = made.tasks
    ledger.record(
        TaskMoved(task=one.id, state=TaskState.RUNNING, allocations=AllocationState.RELEASED)
    )
    assert ledger.allocations() == ()


def test_what_was_released_before_is_left_alone(ledger: SqlLedger, made: Reservation) -> None:
    """A VM that gave its GPU back and got another: only the new allocation moves."""
    [one] = made.tasks
    gpu = ledger.gpus()[0]
    ledger.record(
        TaskMoved(task=one.id, state=TaskState.RUNNING, allocations=AllocationState.RELEASED)
    )
    again = start(allocation(made.vms[0], gpu, [0]))
    ledger.reserve(again)
    ledger.record(TaskMoved(task=one.id, state=TaskState.DONE, allocations=AllocationState.ACTIVE))
    states = {each.id: each.state for each in ledger.allocations(released=True)}
    assert states == {
        made.allocations[0].id: AllocationState.RELEASED,
        again.allocations[0].id: AllocationState.ACTIVE,
    }


def test_an_operations_end_is_stamped_once(url: str) -> None:
    clock = iter(range(1000, 2000))
    fleet(url).close()
    ledger = open_ledger(url, now=lambda: float(next(clock)))
    made = start()
    ledger.reserve(made)
    id_ = made.operation.id

    def moved(state: OperationState, **fields: object) -> float | None:
        ledger.record(OperationMoved(operation=id_, state=state, **fields))  # type: ignore[arg-type]
        return ledger.operation(id_).ended_at

    assert moved(OperationState.INTERRUPTED, summary="2 of 3") is None
    assert moved(OperationState.PARTLY, ended_at=500.0) == 500.0
    assert moved(OperationState.RUNNING) is None
    stamped = moved(OperationState.DONE)
    assert stamped is not None
    assert stamped >= 1000
    assert moved(OperationState.DONE, ended_at=600.0) == stamped
    assert ledger.operation(id_).summary == "2 of 3"
    ledger.close()


# -- group commit -------------------------------------------------------------------------------


def test_requests_that_wait_share_a_commit() -> None:
    """While the first commit is under way others gather; the next one takes them all."""
    commits: list[list[int]] = []
    entered, leave = threading.Event(), threading.Event()

    def commit(batch: Sequence[int]) -> None:
        commits.append(sorted(batch))
        entered.set()
        assert leave.wait(30)

    writer = GroupWriter(commit)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(writer.submit, 0)
        assert entered.wait(30)
        others = [pool.submit(writer.submit, number) for number in range(1, 8)]
        deadline = time.monotonic() + 30
        while writer._queue.qsize() < 7 and time.monotonic() < deadline:
            time.sleep(0.001)
        leave.set()
        for each in (first, *others):
            each.result(30)
    writer.close()
    assert commits == [[0], list(range(1, 8))]


def test_a_bad_transition_fails_in_its_own_caller_only(ledger: SqlLedger) -> None:
    vms = [vm(f"v{number}") for number in range(24)]
    made = start(vms=vms)
    ledger.reserve(made)
    barrier = threading.Barrier(24)

    def lane(number: int) -> str:
        one = made.tasks[number]
        barrier.wait(30)
        for seq, state in ((0, StepState.INTENT), (0, StepState.DONE)):
            ledger.record(StepMoved(task=one.id, seq=seq, state=state))
        try:
            bad = StepState.DONE if number % 3 == 0 else StepState.INTENT
            ledger.record(StepMoved(task=one.id, seq=1, state=bad))
        except LedgerError as error:
            return f"{error.message}"
        return "ok"

    with ThreadPoolExecutor(24) as pool:
        results = list(pool.map(lane, range(24)))
    for number, result in enumerate(results):
        expected = f"step 1 of {made.tasks[number].id} cannot go from planned to done"
        assert result == (expected if number % 3 == 0 else "ok")
    states = [each.steps[1].state for each in ledger.tasks(made.operation.id)]
    assert states == [
        StepState.PLANNED if number % 3 == 0 else StepState.INTENT for number in range(24)
    ]


def test_a_database_that_fails_fails_every_waiting_caller_at_once(tmp_path: Path) -> None:
    """A transition is not tried again on its own when it is the database that is stuck."""
    fleet(tmp_path / "l").close()
    ledger = open_ledger(tmp_path / "l", busy_timeout_s=0.2)
    made = start(vms=[vm(f"v{number}") for number in range(8)])
    ledger.reserve(made)
    tried: list[object] = []
    commit = ledger._writer._commit
    ledger._writer._commit = lambda batch: (tried.extend(batch), commit(batch))[1]
    other = sqlite3.connect(tmp_path / "l", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(8) as pool:
        waiting = [
            pool.submit(ledger.record, TaskMoved(task=each.id, state=TaskState.RUNNING))
            for each in made.tasks
        ]
        errors = [each.exception(60) for each in waiting]
    assert all("locked" in str(error) for error in errors)
    assert len(tried) == 8
    other.close()
    ledger.record(TaskMoved(task=made.tasks[0].id, state=TaskState.RUNNING))
    ledger.close()


def test_a_closed_ledger_has_written_everything_and_can_go_on(ledger: SqlLedger) -> None:
    made = start(vms=[vm("v")])
    ledger.reserve(made)
    ledger.record(TaskMoved(task=made.tasks[0].id, state=TaskState.RUNNING))
    ledger.close()
    ledger.record(TaskMoved(task=made.tasks[0].id, state=TaskState.DONE))
    assert ledger.tasks(made.operation.id)[0].state is TaskState.DONE


def test_many_lanes_record_quickly(ledger: SqlLedger) -> None:
    """32 threads, each waiting for its own commit; measured 12,000 transitions/s on two cores."""
    made = start(vms=[vm(f"v{number}") for number in range(64)])
    made = Reservation(
        operation=made.operation,
        vms=made.vms,
        tasks=tuple(task(each, made.operation.id, steps=10) for each in made.vms),
    )
    ledger.reserve(made)

    def lane(number: int) -> None:
        for one in made.tasks[number::32]:
            for seq in range(10):
                ledger.record(StepMoved(task=one.id, seq=seq, state=StepState.INTENT))
                ledger.record(StepMoved(task=one.id, seq=seq, state=StepState.DONE))

    began = time.perf_counter()
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lane, range(32)))
    rate = 64 * 20 / (time.perf_counter() - began)
    print(f"record: {rate:.0f} transitions/s, one per call")
    assert rate > 300  # a bound for a machine that is busy with other tests
    states = {each.state for one in ledger.tasks(made.operation.id) for each in one.steps}
    assert states == {StepState.DONE}
