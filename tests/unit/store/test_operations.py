"""Operations: listed newest first, found by prefix, worked on by one live process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.store.values import fleet, start
from vgpumgr.model.errors import NotFound
from vgpumgr.model.operation import OperationMoved, OperationState
from vgpumgr.store import SqlLedger

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    opened = fleet(url)
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
