"""Images and their copies: written with an operation, ended by its tasks, never used twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.store.values import fleet
from vgpumgr.model.errors import NotFound, StaleGeneration
from vgpumgr.model.image import CopyState, ImageCopy, ImageRecord
from vgpumgr.model.operation import (
    DISCARD,
    IMPORT,
    OperationRecord,
    OperationState,
    Reservation,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.store import SqlLedger
from vgpumgr.store.admin import maintenance

IMAGE = ImageRecord(
    id="i-1",
    name="cad",
    version="12",
    format="qcow2",
    virtual_bytes=1 << 40,
    file_bytes=3 << 30,
    sha256="ab" * 32,
    source="cad.qcow2",
    created_at=10.0,
)
COPY = ImageCopy(id="c-1", image="i-1", host="h1", pool="default")


def begin(
    ledger: SqlLedger, id_: str, *copies: ImageCopy, verb: str = IMPORT, **fields: object
) -> None:
    operation = OperationRecord(
        id=id_, kind="image import", state=OperationState.RUNNING, epoch=1, started_at=20.0
    )
    tasks = tuple(
        TaskRecord(
            id=f"{id_}-{copy.id}", operation=id_, vm_id=copy.id, vm="image cad@12", host=copy.host,
            verb=verb, steps=(),
        )
        for copy in copies
    )  # fmt: skip
    start = Reservation(operation=operation, tasks=tasks, copies=copies)
    ledger.reserve(replace(start, **fields))  # type: ignore[arg-type]


def end(ledger: SqlLedger, task: str, state: CopyState, *, undone: bool = False) -> None:
    way = (TaskState.UNDOING, TaskState.UNDONE) if undone else (TaskState.RUNNING, TaskState.DONE)
    ledger.record(
        TaskMoved(task=task, state=way[0]), TaskMoved(task=task, state=way[1], copy=state)
    )


def states(ledger: SqlLedger) -> list[tuple[str, CopyState]]:
    return [(each.host, each.state) for image in ledger.images() for each in image.copies]


def test_a_copy_is_there_when_its_task_is_done(url: str) -> None:
    ledger = fleet(url)
    begin(ledger, "o-1", COPY, images=(IMAGE,))
    [found] = ledger.images()
    assert found == replace(IMAGE, copies=(COPY,))
    assert found.pools("h1") == ()
    end(ledger, "o-1-c-1", CopyState.THERE)
    [found] = ledger.images()
    assert found.pools("h1") == ("default",)
    assert found.copies[0].verified_at > 0
    events = [each.event for each in reversed(ledger.audit(event="image"))]
    assert events == ["image.imported", "image.copy-importing", "image.copy-there"]
    assert ledger.audit(event="image.copy-there")[0].operation == "o-1"


def test_what_is_undone_leaves_no_copy_and_may_come_again(url: str) -> None:
    ledger = fleet(url)
    begin(ledger, "o-1", COPY, images=(IMAGE,))
    end(ledger, "o-1-c-1", CopyState.GONE, undone=True)
    assert states(ledger) == []
    begin(ledger, "o-2", replace(COPY, id="c-2"))
    end(ledger, "o-2-c-2", CopyState.THERE)
    assert states(ledger) == [("h1", CopyState.THERE)]


def test_a_version_is_made_once_and_a_copy_is_in_a_pool_once(url: str) -> None:
    ledger = fleet(url)
    begin(ledger, "o-1", COPY, images=(IMAGE,))
    with pytest.raises(StaleGeneration):
        begin(ledger, "o-2", images=(replace(IMAGE, id="i-2"),))
    with pytest.raises(StaleGeneration):
        begin(ledger, "o-3", replace(COPY, id="c-3"))
    assert len(ledger.images()) == 1
    assert [each.id for each in ledger.operations()] == ["o-1"]


def test_a_copy_leaves_that_is_there_and_stays_where_that_is_taken_back(url: str) -> None:
    ledger = fleet(url)
    begin(ledger, "o-1", COPY, images=(IMAGE,))
    leaving = replace(COPY, state=CopyState.LEAVING)
    with pytest.raises(StaleGeneration):
        begin(ledger, "o-2", leaving, verb=DISCARD)
    end(ledger, "o-1-c-1", CopyState.THERE)
    [before] = ledger.images()
    begin(ledger, "o-2", leaving, verb=DISCARD)
    assert ledger.images()[0].pools("h1") == ()
    end(ledger, "o-2-c-1", CopyState.THERE, undone=True)
    assert ledger.images() == (before,)
    begin(ledger, "o-3", leaving, verb=DISCARD)
    end(ledger, "o-3-c-1", CopyState.GONE)
    assert states(ledger) == []


def test_an_image_is_retired_once_and_for_good(url: str) -> None:
    ledger = fleet(url)
    begin(ledger, "o-1", images=(IMAGE,))
    ledger.retire_image("i-1")
    [retired] = ledger.images()
    assert retired.retired_at is not None
    ledger.retire_image("i-1")
    assert ledger.images() == (retired,)
    assert [each.detail for each in ledger.audit(event="image.retired")] == ["cad@12"]
    with pytest.raises(NotFound):
        ledger.retire_image("i-2")


def test_copies_on_a_host_that_leaves_are_nobodys(url: str) -> None:
    ledger = fleet(url, ("h1", "h2"))
    begin(ledger, "o-1", COPY, replace(COPY, id="c-2", host="h2"), images=(IMAGE,))
    end(ledger, "o-1-c-1", CopyState.THERE)
    end(ledger, "o-1-c-2", CopyState.THERE)
    ledger.remove_host("h2")
    assert states(ledger) == [("h1", CopyState.THERE)]


def test_check_names_a_copy_that_nobody_works_on(url: str) -> None:
    ledger = fleet(url)
    begin(ledger, "o-1", COPY, replace(COPY, id="c-2", pool="fast"), images=(IMAGE,))
    end(ledger, "o-1-c-2", CopyState.THERE)

    def found() -> list[str]:
        return [e.what for e in maintenance.check(url).problems if e.what.startswith("image")]

    assert found() == []
    ledger.record(TaskMoved(task="o-1-c-1", state=TaskState.FAILED))
    assert found() == ["image cad@12 on h1 is importing"]
