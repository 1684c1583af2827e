"""What one process writes wakes another at once; nothing depends on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.pgserver import PgServer
from tests.unit.store.values import end, fleet, open_ledger, start, vm
from vgpumgr.model.errors import LedgerError
from vgpumgr.model.operation import OperationMoved, OperationState
from vgpumgr.store import SqlLedger
from vgpumgr.store.database import postgresql

DEADLINE_S = 60.0


@pytest.fixture
def ledger(pg_url: str) -> Iterator[SqlLedger]:
    opened = fleet(pg_url)
    yield opened
    opened.close()


class Ear:
    """Counts what was heard."""

    def __init__(self) -> None:
        self._heard = threading.Semaphore(0)

    def __call__(self) -> None:
        self._heard.release()

    def hears(self) -> bool:
        return self._heard.acquire(timeout=DEADLINE_S)

    def is_deaf(self) -> bool:
        return not self._heard.acquire(blocking=False)


def ends_an_operation(ledger: SqlLedger) -> None:
    begun = start(vms=[vm("web")])
    ledger.reserve(begun)
    end(ledger, begun)
    ended = OperationMoved(operation=begun.operation.id, state=OperationState.UNDONE, ended_at=1.0)
    ledger.record(ended)


def changes_a_host(ledger: SqlLedger) -> None:
    ledger.update_host(ledger.host("h1"))


@pytest.mark.parametrize("work", [ends_an_operation, changes_a_host])
def test_another_process_hears_of_work_at_once(
    ledger: SqlLedger, pg_url: str, work: Callable[[SqlLedger], None]
) -> None:
    ear, other = Ear(), open_ledger(pg_url)
    with closing(other.hear(ear)):
        assert ear.hears(), "it begins"
        assert ear.is_deaf()
        work(ledger)
        assert ear.hears()


def test_what_was_not_kept_is_not_told(ledger: SqlLedger, pg_url: str) -> None:
    ear, other = Ear(), open_ledger(pg_url)
    with closing(other.hear(ear)):
        assert ear.hears()
        with pytest.raises(LedgerError):
            ledger.record(OperationMoved(operation="none", state=OperationState.DONE))
        changes_a_host(ledger)
        assert ear.hears()
        assert ear.is_deaf()


def test_after_its_server_was_away_it_hears_again(
    pg: PgServer, ledger: SqlLedger, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_AGAIN_S", 0.05)
    ear, other = Ear(), open_ledger(pg_url)
    with closing(other.hear(ear)):
        assert ear.hears()
        pg.end_sessions(pg_url)
        assert ear.hears(), "something may have been told meanwhile"
        again = open_ledger(pg_url)
        changes_a_host(again)
        assert ear.hears()


def test_a_file_gives_no_hints(tmp_path: Path) -> None:
    ear, alone = Ear(), fleet(str(tmp_path / "l"))
    with closing(alone.hear(ear)):
        changes_a_host(alone)
    assert ear.is_deaf()
    alone.close()
