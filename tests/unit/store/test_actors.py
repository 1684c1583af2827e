"""Who asks is in every record, whichever thread or process writes it."""

from __future__ import annotations

import ast
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.pgserver import PgServer
from tests.unit.store import values
from vgpumgr.engine.controller.cycle_threads import ThreadCycleRunner
from vgpumgr.engine.workers.thread_workers import SystemClock, ThreadWorkers
from vgpumgr.model.actor import Actor, LoginMethod, acting, current_actor
from vgpumgr.model.history import AccessEvent, AuditRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import (
    OperationMoved,
    OperationState,
    StepMoved,
    StepState,
    TaskMoved,
    TaskState,
)
from vgpumgr.model.vm import VmState

THREADS, USERS, TURNS = 64, 8, 2
ADA = Actor(
    user="ada@example.org",
    tenant="blue",
    method=LoginMethod.TOKEN,
    address="192.0.2.7",
    credential="t-1",
)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger's address, on either store."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    server: PgServer = request.getfixturevalue("pg")
    return server.database()


def life(ledger: Ledger, name: str) -> None:
    """A VM made and deleted again, by as many commits as it takes."""
    begun = values.start(vms=[values.vm(name)])
    ledger.reserve(begun)
    [job] = begun.tasks
    ledger.record(TaskMoved(task=job.id, state=TaskState.RUNNING))
    for state in (StepState.INTENT, StepState.DONE):
        ledger.record(StepMoved(task=job.id, seq=0, state=state))
    values.end(ledger, begun)
    ledger.record(OperationMoved(operation=begun.operation.id, state=OperationState.UNDONE))


def who(record: AuditRecord) -> Actor:
    """The actor that a record names."""
    return Actor(
        user=record.by,
        tenant=record.tenant,
        method=LoginMethod(record.method),
        address=record.address,
        credential=record.credential,
    )


def test_no_record_is_under_a_wrong_name(url: str) -> None:
    """64 threads of 8 users on one ledger, which commits the work of several together."""
    ledger = values.fleet(url)
    users = [
        Actor(user=f"u{number}@example.org", tenant=f"t{number}", method=LoginMethod.TOKEN)
        for number in range(USERS)
    ]
    together = threading.Barrier(THREADS)

    def work(number: int) -> None:
        together.wait()
        for turn in range(TURNS):
            with acting(users[(number + turn) % USERS]):
                life(ledger, f"v{number}-{turn}")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    told = [each for each in ledger.audit() if each.operation]
    owners = {each.operation: each.vm for each in told if each.vm}
    assert len(owners) == THREADS * TURNS
    for each in told:
        number, turn = map(int, owners[each.operation].removeprefix("v").split("-"))
        wanted = users[(number + turn) % USERS]
        assert (who(each), each.asked_by) == (wanted, wanted.user), each
    assert {each.tenant for each in ledger.operations()} == {each.tenant for each in users}
    values.close_all()


def test_a_record_of_rows_changed_by_the_database_names_the_actor(url: str) -> None:
    ledger = values.fleet(url)
    with acting(ADA):
        life(ledger, "desk")
    assert {who(each) for each in ledger.audit(operation="op-")} == {ADA}
    [operation] = ledger.operations()
    assert (operation.by, operation.tenant, operation.method) == (ADA.user, "blue", "token")
    values.close_all()


def test_what_serve_carries_out_says_so_and_whose_it_is(url: str) -> None:
    ledger = values.fleet(url)
    begun = values.start(vms=[values.vm("desk")])
    with acting(ADA):
        ledger.reserve(begun)
    ledger.close()
    serve = values.open_ledger(url, by="root@ctl", method=LoginMethod.SERVE)
    serve.claim_operation(begun.operation.id)
    serve.record(
        TaskMoved(
            task=begun.tasks[0].id,
            state=TaskState.RUNNING,
            vm_id=begun.vms[0].id,
            vm_state=VmState.ACTIVE,
        )
    )
    [record] = serve.audit(event="vm.active")
    assert (record.by, record.method, record.asked_by) == ("root@ctl", "serve", ADA.user)
    assert record in serve.audit(user="ada@")
    assert record in serve.audit(tenant="blue")
    assert record not in serve.audit(by="ada@")
    assert serve.audit(user="eva") == serve.audit(tenant="red") == ()
    values.close_all()


def test_a_login_and_a_refusal_are_records_too(url: str) -> None:
    ledger = values.fleet(url)
    start = ledger.trail_since(None)
    with acting(ADA):
        ledger.record_access(AccessEvent.LOGIN)
    with acting(Actor(user="x" * 9999, method=LoginMethod.TOKEN, address="192.0.2.9")):
        ledger.record_access(AccessEvent.REFUSED, "the token has expired" + "!" * 9999)
    refused, login = ledger.audit(event="access.")
    assert (login.event, who(login)) == ("access.login", ADA)
    assert (refused.event, len(refused.by), len(refused.detail)) == ("access.refused", 256, 256)
    assert ledger.trail_since(start.end).hosts == ()
    values.close_all()


def test_who_asks_goes_with_the_work_into_threads() -> None:
    workers = ThreadWorkers(4)
    cycles: ThreadCycleRunner[Actor | None] = ThreadCycleRunner(4, SystemClock())
    with acting(ADA):
        found = workers.run({f"h{n}": current_actor for n in range(8)})
        cycles.begin("h1", lambda _: current_actor())
    assert set(found.values()) == {ADA}
    assert [each.result for each in cycles.ended(10)] == [ADA]
    assert current_actor() is None


@pytest.mark.parametrize("room", ["app", "cli", "engine"])
def test_each_thread_that_may_write_takes_who_asks_along(room: str) -> None:
    """``Thread(target=carried(…))``; those of the console's door move bytes alone."""
    found = [
        f"{path}:{call.lineno}"
        for path in sorted(Path("vgpumgr", room).rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "threading.Thread"
        if not _carries(path, call)
    ]
    assert [each for each in found if "console_proxy" not in each] == []
    assert len(found) == (2 if room == "app" else 0)


def _carries(path: Path, call: ast.Call) -> bool:
    [target] = [each.value for each in call.keywords if each.arg == "target"]
    text = ast.unparse(target)
    return text.startswith("carried(") or f" {text} = carried(" in path.read_text()
