"""A ledger on PostgreSQL: made once, durable, one writer at a time, and clear when it fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Transaction, select, text
from sqlalchemy.exc import OperationalError

from tests import pgserver
from tests.pgserver import PgServer
from tests.unit.store.values import allocation, fleet, open_ledger, start, vm
from vgpumgr.model.errors import ClaimLost, DatabaseFault, LedgerError, StaleGeneration
from vgpumgr.model.host import HostRecord
from vgpumgr.model.operation import TaskMoved, TaskState
from vgpumgr.store import SqlLedger, migrate_ledger
from vgpumgr.store.database import connections, postgresql
from vgpumgr.store.database.faults import OutcomeFault, TryAgain, explain
from vgpumgr.store.schema import SCHEMA_VERSION, meta


@pytest.fixture
def ledger(pg_url: str) -> Iterator[SqlLedger]:
    opened = fleet(pg_url)
    yield opened
    opened.close()


# -- opening -------------------------------------------------------------------------------------


def test_many_can_make_the_same_ledger_at_once(pg: PgServer) -> None:
    url = pg.database()
    with ThreadPoolExecutor(6) as pool:
        ledgers = list(pool.map(lambda _: open_ledger(url), range(6)))
    assert len({each.fleet_id() for each in ledgers}) == 1
    with ledgers[0]._database.read() as connection:
        assert len(connection.execute(select(meta)).all()) == 1
    for each in ledgers:
        each.close()


def test_an_empty_database_shows_empty_lists_and_stays_empty(pg: PgServer) -> None:
    url = pg.database()
    view = open_ledger(url, create=False)
    assert (view.hosts(), view.vms(), view.operations()) == ((), (), ())
    with pytest.raises(LedgerError, match="no ledger yet"):
        view.add_host(HostRecord(name="h1", address="root@h1"))
    view.close()
    name = pg.name(url)
    assert pg.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name) == [(0,)]


def test_anothers_database_is_left_alone(pg: PgServer) -> None:
    url = pg.database()
    name = pg.name(url)
    pg.sql("CREATE TABLE theirs (a int)", name)
    with pytest.raises(LedgerError, match="is not a vgpumgr ledger"):
        open_ledger(url, create=False)


def test_an_older_schema_is_refused_and_migrated_in_one_transaction(
    pg_copy: str, pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pg.name(pg_copy)
    later = (
        "logoff_move, ticket, image_copy, image, pool_session, pool_ask, desktop, pool, booking, "
        "refusal, seal, checkpoint, webhook, flavour, secret, role_binding, api_token, "
        "login_session, price_book, licence, api_request, backup_target, vm_backup, "
        "power_budget, power_cap, notification, calendar, profile_disk"
    )
    pg.sql(f"DROP TABLE audit, queue, quota, {later}", name)
    for table, column in (
        *(("meta", "frozen_why"), ("meta", "frozen_at"), ("host", "due_at")),
        *(("gpu", "health"), ("gpu", "state_why"), ("operation", "worker"), ("vm", "definition")),
        *(("operation", "left_until"), ("operation", "tenant"), ("operation", "method")),
        *(
            ("operation", "vm_tenant"),
            ("vm", "tenant"),
            ("vm", "snapshots"),
            ("vm", "guest"),
            ("vm", "nic_functions"),
            ("request", "tenant"),
        ),
    ):
        pg.sql(f"ALTER TABLE {table} DROP COLUMN {column}", name)
    pg.sql("DROP INDEX ix_vm_name", name)
    pg.sql("UPDATE meta SET schema_version = 3", name)
    with pytest.raises(LedgerError, match="created by an older vgpumgr") as caught:
        open_ledger(pg_copy)
    assert "pg_dump" in caught.value.next
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda _: migrate_ledger(pg_copy), range(3)))
    assert sorted(each.before for each in done) == [3, SCHEMA_VERSION, SCHEMA_VERSION]
    fleet(pg_copy).reserve(start(vms=[vm("v")]))


# -- promises ------------------------------------------------------------------------------------


def test_a_read_sees_one_moment(ledger: SqlLedger, pg_url: str) -> None:
    other = open_ledger(pg_url)
    with ledger._database.read() as connection:
        before = connection.execute(select(meta.c.epoch)).scalar()
        other.raise_epoch()
        assert connection.execute(select(meta.c.epoch)).scalar() == before
    assert ledger.epoch() == 2


def test_one_writes_at_a_time_and_whoever_waits_too_long_is_told(
    ledger: SqlLedger, pg_url: str
) -> None:
    other = open_ledger(pg_url, busy_timeout_s=0.1)
    with ledger._database.write():
        assert other.epoch() == 1
        with pytest.raises(LedgerError, match="locked by another process"):
            other.raise_epoch()
    assert other.raise_epoch() == 2


def test_every_connection_keeps_the_promises(pg: PgServer, pg_copy: str) -> None:
    name = pg.name(pg_copy)
    pg.sql(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    ledger = open_ledger(pg_copy, busy_timeout_s=3.5)
    asked = ("synchronous_commit", "lock_timeout", "idle_in_transaction_session_timeout")
    with ledger._database.write() as connection:
        answers = [connection.execute(text(f"SHOW {name}")).scalar() for name in asked]
    assert answers == ["on", "3500ms", "1min"]


def test_of_many_controllers_racing_for_one_slot_one_wins(pg_url: str) -> None:
    ledgers = [fleet(pg_url), *(open_ledger(pg_url) for _ in range(3))]
    gpu = ledgers[0].gpus()[0]
    barrier = threading.Barrier(len(ledgers))

    def race(number: int, slot: int) -> bool:
        owner = vm(f"v{slot}-{number}")
        barrier.wait(30)
        try:
            ledgers[number].reserve(start(allocation(owner, gpu, [slot]), vms=[owner]))
        except StaleGeneration:
            return False
        return True

    with ThreadPoolExecutor(len(ledgers)) as pool:
        for slot in range(8):
            won = [pool.submit(race, number, slot) for number in range(len(ledgers))]
            assert sum(each.result(60) for each in won) == 1
    assert len(ledgers[0].allocations()) == 8


# -- failures ------------------------------------------------------------------------------------


def test_connections_that_were_ended_are_made_anew(
    ledger: SqlLedger, pg_url: str, pg: PgServer
) -> None:
    ledger.hosts()
    pg.end_sessions(pg_url)
    assert [each.name for each in ledger.hosts()] == ["h1"]
    ledger.raise_epoch()


class Broken:
    """A transaction whose connection breaks while COMMIT is under way: before or after the server
    heard it.
    """

    def __init__(self, transaction: Transaction, *, kept: bool) -> None:
        self.transaction = transaction
        self.kept = kept

    def commit(self) -> None:
        (self.transaction.commit if self.kept else self.transaction.rollback)()
        cause = RuntimeError("server closed the connection unexpectedly")
        raise OperationalError("COMMIT", {}, cause, connection_invalidated=True)


def break_at_commit(monkeypatch: pytest.MonkeyPatch, *, kept: bool) -> None:
    commit = postgresql._commit

    def broken(transaction: Transaction, *rest: Any) -> None:
        commit(Broken(transaction, kept=kept), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(postgresql, "_commit", broken)


def test_a_commit_that_was_kept_although_its_answer_was_lost_is_no_error(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_at_commit(monkeypatch, kept=True)
    assert ledger.raise_epoch() == 2
    assert ledger.epoch() == 2


def test_a_commit_that_was_not_kept_is_an_error(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_at_commit(monkeypatch, kept=False)
    with pytest.raises(DatabaseFault, match="ended the connection"):
        ledger.raise_epoch()
    assert ledger.epoch() == 1


def test_what_a_server_that_is_gone_did_with_a_commit_is_not_guessed(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_at_commit(monkeypatch, kept=True)
    monkeypatch.setattr(postgresql, "_outcome", lambda *_: "")
    with pytest.raises(OutcomeFault) as caught:
        ledger.raise_epoch()
    assert caught.value.code == "ledger.outcome-unknown"


def test_a_killed_server_keeps_what_was_written_and_its_claims_are_gone() -> None:
    with pgserver.running() as own:
        ledger = fleet(own.database())
        made = start(vms=[vm("v")])
        ledger.reserve(made)
        own.kill()
        with pytest.raises(LedgerError) as down:
            ledger.hosts()
        assert "pg_isready" in down.value.next
        own.start()
        with pytest.raises(ClaimLost):
            ledger.record(TaskMoved(task=made.tasks[0].id, state=TaskState.RUNNING))
        ledger.close()
        again = open_ledger(ledger._database.engine.url.render_as_string(hide_password=False))
        assert again.tasks(made.operation.id)[0].state is TaskState.PENDING
        assert again.claim_operation(made.operation.id)
        again.record(TaskMoved(task=made.tasks[0].id, state=TaskState.RUNNING))
        again.close()


def fault(state: str, message: str = "", *, orig: bool = True) -> LedgerError:
    cause = RuntimeError(message)
    cause.sqlstate = state or None  # type: ignore[attr-defined]
    return explain(OperationalError("x", {}, cause), "postgresql://h/d")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (fault("53100", "could not extend file"), "disk is full"),
        (fault("53300"), "takes no more connections"),
        (fault("25006"), "read-only"),
        (fault("57P01"), "ended the connection"),
        (fault("", "connection failed: FATAL: password authentication failed"), "denies access"),
        (fault("", 'connection failed: FATAL: database "d" does not exist'), "does not exist"),
        (fault("", "connection failed: Connection refused"), "cannot be reached"),
    ],
)
def test_what_the_server_refuses_is_said_in_words(error: LedgerError, says: str) -> None:
    assert says in error.message
    assert error.why
    assert error.next
    assert isinstance(error, DatabaseFault)


def test_an_address_is_shown_without_its_password() -> None:
    for url in (
        "postgresql://u:secret@127.0.0.1:1/d",
        "postgresql://127.0.0.1:1/d?password=secret",
    ):
        with pytest.raises(LedgerError, match="cannot be reached") as caught:
            open_ledger(url)
        assert "secret" not in str(caught.value.as_dict())


@pytest.mark.parametrize("state", ["40001", "40P01", "57P03"])
def test_a_transaction_that_may_go_through_is_tried_again_a_few_times(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "time", SimpleNamespace(sleep=lambda _: None))
    tried: list[int] = []

    def work(most: int) -> int:
        tried.append(1)
        if len(tried) < most:
            raise fault(state)
        return len(tried)

    assert connections.retried(work)(3) == 3
    tried.clear()
    with pytest.raises(TryAgain):
        connections.retried(work)(1000)
    assert len(tried) == connections.MOST
