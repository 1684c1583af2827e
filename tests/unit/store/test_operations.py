"""Operations: listed newest first, found by prefix, worked on by one live process."""

from __future__ import annotations

import fcntl
import multiprocessing
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.store.values import fleet, start
from vgpumgr.model.errors import NotFound
from vgpumgr.model.journal import OperationMoved, OperationState
from vgpumgr.store import SqlLedger, locks, open_ledger

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    opened = fleet(tmp_path / "l")
    yield opened
    opened.close()


def operate(ledger: SqlLedger, id_: str, state: OperationState = OperationState.RUNNING) -> str:
    made = start()
    ledger.reserve(replace(made, operation=replace(made.operation, id=id_, by="ann", summary="s")))
    ledger.record(OperationMoved(operation=id_, state=state))
    return id_


def test_operations_are_listed_newest_first(ledger: SqlLedger) -> None:
    """By the order they were written: clocks go back."""
    for id_ in ("bb", "aa", "cc"):
        operate(ledger, id_)
    assert [each.id for each in ledger.operations()] == ["cc", "aa", "bb"]
    assert (ledger.operations()[0].by, ledger.operations()[0].summary) == ("ann", "s")


def test_open_operations_are_those_that_run_or_wait(ledger: SqlLedger) -> None:
    for state in OperationState:
        operate(ledger, f"op-{state}", state)
    assert {each.state for each in ledger.operations(open_only=True)} == {
        OperationState.RUNNING,
        OperationState.INTERRUPTED,
    }


def test_an_operation_is_found_by_id_or_unique_prefix(ledger: SqlLedger) -> None:
    for id_ in ("abc", "abcd", "a%c", "xyz"):
        operate(ledger, id_)
    assert ledger.operation("abc").id == "abc"
    assert ledger.operation("abcd").id == "abcd"
    assert ledger.operation("x").id == "xyz"
    assert ledger.operation("a%").id == "a%c"
    with pytest.raises(NotFound, match="more than one") as caught:
        ledger.operation("ab")
    assert "abc, abcd" in caught.value.why


@pytest.mark.parametrize("missing", ["", "q", "_", "xyzz"])
def test_an_operation_that_is_not_there_is_not_found(ledger: SqlLedger, missing: str) -> None:
    operate(ledger, "xyz")
    with pytest.raises(NotFound):
        ledger.operation(missing)
    assert ledger.tasks(missing) == ()


# -- claims -------------------------------------------------------------------------------------


def test_an_operation_has_one_worker_until_it_closes(tmp_path: Path) -> None:
    one, two = fleet(tmp_path / "l"), open_ledger(tmp_path / "l")
    operate(one, "op-1")
    operate(one, "op-2")
    assert one.claim_operation("op-1")
    assert one.claim_operation("op-1")
    assert not two.claim_operation("op-1")
    assert two.claim_operation("op-2")
    one.close()
    assert two.claim_operation("op-1")
    two.close()
    assert list((tmp_path / "l.locks").iterdir()) == []


def test_only_what_exists_can_be_claimed(ledger: SqlLedger) -> None:
    with pytest.raises(NotFound):
        ledger.claim_operation("../../etc/passwd")


def test_an_odd_id_stays_inside_the_folder_of_locks(ledger: SqlLedger, tmp_path: Path) -> None:
    operate(ledger, "../../x")
    assert ledger.claim_operation("../../x")
    assert len(list((tmp_path / "l.locks").iterdir())) == 1


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
    one, two = locks.OperationLocks(tmp_path), locks.OperationLocks(tmp_path)
    assert one.claim("op")
    assert not two.claim("op")
    one.close()
    two.close()


def hold(path: Path, told: Connection) -> None:
    """A worker that claims and then waits to be killed."""
    ledger = open_ledger(path)
    told.send(ledger.claim_operation("op-1"))
    told.recv()


def test_a_killed_worker_lets_go(ledger: SqlLedger, tmp_path: Path) -> None:
    operate(ledger, "op-1")
    ours, theirs = SPAWN.Pipe()
    worker = SPAWN.Process(target=hold, args=(tmp_path / "l", theirs))
    worker.start()
    assert ours.poll(60)
    assert ours.recv() is True
    assert not ledger.claim_operation("op-1")
    worker.kill()
    worker.join(60)
    worker.close()
    assert ledger.claim_operation("op-1")
    ours.close()
    theirs.close()
