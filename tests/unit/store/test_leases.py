"""Claims: one live process works on an operation, and one that lost its claim does nothing."""

from __future__ import annotations

import fcntl
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.pgserver import PgServer
from tests.unit.store.values import allocation, fleet, open_ledger, start, vm
from vgpumgr.model.errors import ClaimLost, NotFound
from vgpumgr.model.operation import OperationMoved, OperationState, TaskMoved, TaskState
from vgpumgr.store import SqlLedger
from vgpumgr.store.database import locks

SPAWN = multiprocessing.get_context("spawn")


def begin(ledger: SqlLedger, id_: str = "op-1", *names: str) -> None:
    """Reserve an operation that makes these VMs."""
    vms = [vm(name) for name in names]
    made = start(vms=vms, operation=replace(start().operation, id=id_))
    tasks = tuple(replace(each, operation=id_) for each in made.tasks)
    ledger.reserve(replace(made, tasks=tasks))


def move(ledger: SqlLedger, id_: str, state: OperationState) -> None:
    ledger.record(OperationMoved(operation=id_, state=state))


def end_lock_session(ledger: SqlLedger, pg: PgServer) -> None:
    """What an administrator, a failover or a network does to the connection that claims."""
    pg.sql(f"SELECT pg_terminate_backend({ledger._claims._backend}, 5000)")  # type: ignore[attr-defined]


# -- on both stores ------------------------------------------------------------------------------


def test_who_begins_an_operation_is_its_worker_until_it_ends_or_waits(url: str) -> None:
    one, two = fleet(url), open_ledger(url)
    begin(one)
    assert one.claim_operation("op-1")
    assert not two.claim_operation("op-1")
    assert (one.is_worked_on("op-1"), two.is_worked_on("op-1")) == (True, True)
    move(one, "op-1", OperationState.INTERRUPTED)
    assert not two.is_worked_on("op-1")
    assert two.claim_operation("op-1")
    assert not one.claim_operation("op-1")
    move(two, "op-1", OperationState.DONE)
    assert one.claim_operation("op-1")


def test_a_worker_that_closes_lets_go_and_needs_no_new_epoch(url: str) -> None:
    one, two = fleet(url), open_ledger(url)
    begin(one)
    one.close()
    assert two.claim_operation("op-1")
    assert two.epoch() == 1


def test_any_name_has_one_holder_at_a_time(url: str) -> None:
    one, two = open_ledger(url), open_ledger(url)
    assert (one.claim("host:h1"), one.claim("host:h1"), two.claim("host:h1")) == (True, True, False)
    assert two.claim("host:h2")
    one.release("host:h1")
    one.release("host:h1")
    assert two.claim("host:h1")
    one.close()
    assert not open_ledger(url).claim("host:h1")


def test_a_start_that_is_refused_claims_nothing(url: str) -> None:
    one, two = fleet(url), open_ledger(url)
    begin(one, "op-1", "desk")
    with pytest.raises(Exception, match="exists"):
        begin(one, "op-2", "desk")
    assert two.claim("operation:op-2")


def test_only_what_exists_can_be_claimed(url: str) -> None:
    ledger = fleet(url)
    with pytest.raises(NotFound):
        ledger.claim_operation("../../etc/passwd")


def hold(url: str, told: Connection) -> None:
    """A worker that claims and then waits to be killed."""
    ledger = open_ledger(url)
    told.send((ledger.claim_operation("op-1"), ledger.epoch()))
    told.poll(600)


@contextmanager
def holder(url: str) -> Iterator[tuple[multiprocessing.process.BaseProcess, Connection]]:
    """A process that asks for the operation; killed at the end."""
    ours, theirs = SPAWN.Pipe()
    worker = SPAWN.Process(target=hold, args=(url, theirs))
    worker.start()
    try:
        yield worker, ours
    finally:
        worker.kill()
        worker.join(60)
        worker.close()
        ours.close()
        theirs.close()


def test_a_killed_worker_lets_go_at_once(url: str) -> None:
    """A killed process never speaks again: its lock file says so. A server only sees a session
    end, so there the epoch is raised.
    """
    ledger = fleet(url)
    begin(ledger)
    ledger.close()
    with holder(url) as (worker, told):
        assert told.poll(60)
        assert told.recv() == (True, 1)
        assert not ledger.claim_operation("op-1")
        worker.kill()
        worker.join(60)
        assert any(ledger.claim_operation("op-1") for _ in range(1000))
    assert ledger.epoch() == (1 if "@" not in url else 2)


# -- on a server: a session may end while its process lives --------------------------------------


@pytest.fixture
def lost(pg_url: str, pg: PgServer) -> Iterator[SqlLedger]:
    """The ledger of a process that works on op-1, whose claims have just ended."""
    ledger = fleet(pg_url)
    begin(ledger, "op-1", "desk")
    assert ledger.fresh_epoch() == 1
    end_lock_session(ledger, pg)
    yield ledger
    ledger.close()


def test_who_lost_its_claim_writes_nothing_and_gets_no_epoch(lost: SqlLedger) -> None:
    before = (lost.tasks("op-1"), lost.operations(), lost.gpus())
    task = lost.tasks("op-1")[0].id
    board = lost.gpus()[0]
    other = vm("other")
    for attempt in (
        lambda: lost.record(TaskMoved(task=task, state=TaskState.RUNNING)),
        lambda: lost.reserve(start(allocation(other, board, [0]), vms=[other])),
        lambda: lost.claim_operation("op-1"),
        lambda: lost.claim("serve"),
        lost.fresh_epoch,
    ):
        with pytest.raises(ClaimLost) as caught:
            attempt()
        assert caught.value.code == "ledger.claim-lost"
        assert "operation list" in caught.value.next
    assert (lost.tasks("op-1"), lost.operations(), lost.gpus()) == before


def test_who_takes_over_speaks_in_a_new_epoch(lost: SqlLedger, pg_url: str) -> None:
    other = open_ledger(pg_url)
    assert other.claim_operation("op-1")
    assert other.epoch() == 2
    assert other.fresh_epoch() == 2
    task = other.tasks("op-1")[0].id
    other.record(TaskMoved(task=task, state=TaskState.RUNNING))
    other.close()
    assert lost.epoch() == 2


def test_the_row_referees_where_the_lock_was_lost_a_moment_ago(
    lost: SqlLedger, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session ends just after it was asked."""
    other = open_ledger(pg_url)
    assert other.claim_operation("op-1")
    monkeypatch.setattr(lost._claims, "require", lambda: None)
    task = lost.tasks("op-1")[0].id
    with pytest.raises(ClaimLost, match="no longer owns"):
        lost.record(TaskMoved(task=task, state=TaskState.RUNNING))
    with pytest.raises(ClaimLost):
        lost.fresh_epoch()
    assert other.tasks("op-1")[0].state is TaskState.PENDING


def test_a_live_process_learns_the_epoch_that_anothers_death_raised(
    pg_url: str, pg: PgServer
) -> None:
    dead, live, heir = fleet(pg_url), open_ledger(pg_url), open_ledger(pg_url)
    begin(dead, "op-1")
    begin(live, "op-2", "mine")
    end_lock_session(dead, pg)
    assert heir.claim_operation("op-1")
    assert live.fresh_epoch() == 2
    live.record(TaskMoved(task=live.tasks("op-2")[0].id, state=TaskState.RUNNING))


def test_a_session_that_held_nothing_is_simply_made_anew(pg_url: str, pg: PgServer) -> None:
    ledger = fleet(pg_url)
    assert ledger.claim("serve")
    ledger.release("serve")
    end_lock_session(ledger, pg)
    assert ledger.fresh_epoch() == 1
    assert ledger.claim("serve")


# -- files ---------------------------------------------------------------------------------------


def test_an_odd_id_stays_inside_the_folder_of_locks(tmp_path: Path) -> None:
    ledger = fleet(tmp_path / "l")
    begin(ledger, "../../x")
    assert len(list((tmp_path / "l.locks").iterdir())) == 1
    ledger.close()
    assert list((tmp_path / "l.locks").iterdir()) == []


def test_a_lock_file_removed_while_it_was_opened_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last owner removes its file between our open and our lock: we lock the new file."""
    removals = [tmp_path / "op"]

    def flock(descriptor: int, how: int) -> None:
        if removals:
            removals.pop().unlink()
        fcntl.flock(descriptor, how)

    monkeypatch.setattr(locks, "fcntl", SimpleNamespace(**vars(fcntl) | {"flock": flock}))
    one, two = locks.FileLocks(tmp_path), locks.FileLocks(tmp_path)
    assert one.claim("op")
    assert not two.claim("op")
    one.close()
    two.close()
