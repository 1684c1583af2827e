"""The audit trail: one record per change of state, in its transaction, enough to replay it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.checker.trail import Allocation, Replayed, Vm, replay
from tests.pgserver import PgServer
from tests.simworld import SimWorld, host, vm
from tests.unit.store import values
from tests.world import World, with_disk
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.errors import LedgerError, NotFound, StaleGeneration, VgpumgrError
from vgpumgr.model.history import AuditRecord
from vgpumgr.model.host import Fence, HostRecord
from vgpumgr.model.layout import GpuLayout
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import OperationMoved, OperationState, StepState, TaskMoved, TaskState
from vgpumgr.model.quota import Quota
from vgpumgr.model.vm import VmState
from vgpumgr.store import SqlLedger, open_ledger
from vgpumgr.store.admin.access_steps import index_operations
from vgpumgr.store.admin.migrations import _actors, _seals, _trail_and_freeze


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger's address, on either store."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    server: PgServer = request.getfixturevalue("pg")
    return server.database()


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    opened = open_ledger(url, by="eva@ctl")
    opened.add_host(HostRecord(name="h1", address="root@h1"))
    values.see(opened, "h1", values.board("h1", 1))
    yield opened
    opened.close()


def trail(ledger: Ledger) -> tuple[AuditRecord, ...]:
    """The whole trail, oldest first."""
    return tuple(reversed(ledger.audit()))


def played(ledger: Ledger) -> Replayed:
    return replay(asdict(each) for each in trail(ledger))


def tables(ledger: Ledger) -> Replayed:
    """What the tables show, in the shape of a replay."""
    return Replayed(
        vms={
            each.name: Vm(each.state.value, each.host, each.running, each.generation)
            for each in ledger.vms()
        },
        allocations={
            each.id: Allocation(
                each.state.value, each.vm, each.host, each.gpu, each.device, each.slots
            )
            for each in ledger.allocations(released=True)
        },
    )


def events_of(ledger: Ledger, act: Callable[[], object]) -> list[str]:
    """The events that an act leaves, but for those of its journal; it may fail."""
    before = len(ledger.audit())
    try:
        act()
    except VgpumgrError as error:
        assert not isinstance(error, LedgerError), error
    new = trail(ledger)[before:]
    return [each.event for each in new if each.event.split(".")[0] not in {"step", "task"}]


# -- a whole life --------------------------------------------------------------------------------


def test_a_replay_of_the_trail_alone_gives_what_the_tables_show(tmp_path: Path, url: str) -> None:
    """I11: one record per change through a whole life, in the order in which they happened."""
    hosts = (host("T4"), host("T4", name="h2"), host("A100-PCIE-80GB", name="h3"))
    world = SimWorld(tmp_path, *hosts, ledger=url)
    engine, ledger = world.engine, world.ledger

    def check(act: Callable[[], object], *events: str) -> None:
        assert events_of(ledger, act) == ["operation.begun", *events, "operation.done"]
        assert played(ledger) == tables(ledger)

    engine.refresh()
    assert events_of(ledger, engine.refresh) == []
    made = ("vm.reserved", "allocation.reserved", "allocation.active", "vm.active")
    check(lambda: world.apply(vm("web", "T4-4Q")), *made)
    check(lambda: engine.stop_vms(["web"], force=True, timeout_s=1), "vm.stopped")
    check(lambda: engine.start(["web"]), "vm.started")
    check(lambda: engine.reboot(["web"], force=True))
    check(lambda: engine.apply([vm("web", "T4-4Q", labels={"a": "b"})]), "vm.changed")
    check(lambda: engine.stop_vms(["web"], force=True, timeout_s=1), "vm.stopped")
    to = "h2" if ledger.vm("web").host == "h1" else "h1"
    leaving = ("vm.migrating", "allocation.reserved", "vm.active")
    arriving = ("allocation.released", "allocation.active", "vm.moved")
    check(lambda: engine.migrate("web", to, cold=True), *leaving, *arriving)
    assert ledger.vm("web").host == to
    cut = GpuLayout(mig=True, vfs=20)
    check(lambda: world.cut(cut, host="h3"), "layout.reserved", "layout.settled")
    going = ("vm.deleting", "allocation.released", "vm.deleted")
    check(lambda: world.delete("web"), *going)
    assert (played(ledger).vms, played(ledger).problems) == ({}, [])
    world.close()


@pytest.mark.parametrize("verb", ["mdev_create", "define", "start"])
def test_a_creation_that_is_taken_back_is_in_it_too(tmp_path: Path, verb: str) -> None:
    world = World(tmp_path)
    world.engine.refresh()
    world.host.refuse(verb)
    events = events_of(world.ledger, lambda: world.engine.apply([with_disk()]))
    begun = ["operation.begun", "vm.reserved", "allocation.reserved"]
    refused = "gpu.refused" if verb == "mdev_create" else "host.refused"
    assert events == [*begun, refused, "allocation.released", "vm.deleted", "operation.undone"]
    assert played(world.ledger) == tables(world.ledger)
    [operation] = world.ledger.operations()
    [job] = world.ledger.tasks(operation.id)
    undone = [each.kind for each in job.steps if each.state is StepState.UNDONE]
    told = world.ledger.audit(event="step.")
    assert undone
    assert sorted(each.detail for each in told) == sorted(undone)
    world.close()


# -- what a record says --------------------------------------------------------------------------


def test_a_record_says_who_did_what_to_which_units(ledger: SqlLedger) -> None:
    owner = values.vm("desk")
    begun = values.start(values.allocation(owner, ledger.gpus()[0], [2, 3]), vms=[owner])
    ledger.reserve(begun)
    job, [taken], [gpu] = begun.tasks[0].id, begun.allocations, ledger.gpus()
    [record] = ledger.audit(event="allocation.")
    assert record == AuditRecord(
        seq=record.seq,
        at=record.at,
        by="eva@ctl",
        event="allocation.reserved",
        operation=begun.operation.id,
        task=job,
        vm="desk",
        host="h1",
        gpu=gpu.id,
        allocation=taken.id,
        profile="T4-4Q",
        device=taken.device,
        units=(2, 3),
        after=1,
        method="shell",
        consumption={"gpu.units": 2},
        asked_by="eva@ctl",
    )
    assert ledger.operation(begun.operation.id).by == "eva@ctl"
    end = TaskMoved(task=job, state=TaskState.RUNNING, allocations=AllocationState.ACTIVE)
    ledger.record(end)
    [active, _] = ledger.audit(event="allocation.")
    same = replace(record, seq=active.seq, at=active.at, event=active.event, before=1)
    assert active == replace(same, consumption={})


def test_saying_a_thing_twice_leaves_one_record(ledger: SqlLedger) -> None:
    owner = values.vm("desk")
    begun = values.start(values.allocation(owner, ledger.gpus()[0], [0]), vms=[owner])
    ledger.reserve(begun)
    end = TaskMoved(
        task=begun.tasks[0].id,
        state=TaskState.RUNNING,
        vm_state=VmState.ACTIVE,
        vm_running=False,
        allocations=AllocationState.ACTIVE,
    )
    closed = OperationMoved(operation=begun.operation.id, state=OperationState.INTERRUPTED)
    for _ in range(2):
        ledger.record(end, end, closed)
    events = [each.event for each in trail(ledger)]
    once = ("allocation.active", "vm.active", "vm.stopped", "operation.interrupted")
    assert [events.count(each) for each in once] == [1, 1, 1, 1]


def test_what_was_not_written_is_not_in_the_trail(ledger: SqlLedger) -> None:
    """The record is of the same transaction as the change."""
    owner, gpu = values.vm("desk"), ledger.gpus()[0]
    ledger.reserve(values.start(values.allocation(owner, gpu, [0]), vms=[owner]))
    before = ledger.audit()
    late = values.vm("late")
    taken = values.start(values.allocation(late, gpu, [0]), vms=[late])
    with pytest.raises(StaleGeneration):
        ledger.reserve(taken)
    with pytest.raises(LedgerError):
        ledger.record(TaskMoved(task="no such task", state=TaskState.DONE, vm_state=VmState.ACTIVE))
    with pytest.raises(NotFound):
        ledger.remove_host("h9")
    assert ledger.audit() == before


def test_an_error_is_told_with_its_task_cleaned(ledger: SqlLedger) -> None:
    begun = values.start(vms=[values.vm("desk")])
    ledger.reserve(begun)
    [job] = begun.tasks
    ledger.record(TaskMoved(task=job.id, state=TaskState.FAILED, error="cut \udcff\0"))
    [record] = ledger.audit(event="task.failed")
    assert (record.vm, record.host, record.detail) == ("desk", "h1", "create: cut ??")


# -- hosts and GPUs ------------------------------------------------------------------------------


def test_what_changed_of_a_host_is_told_in_words(ledger: SqlLedger) -> None:
    def change(**fields: object) -> tuple[str, str]:
        ledger.update_host(replace(ledger.host("h1"), **fields))  # type: ignore[arg-type]
        record = ledger.audit(limit=1)[0]
        assert (record.host, record.after) == ("h1", ledger.host("h1").generation)
        assert record.before == ledger.host("h1").generation - 1
        return record.event, record.detail

    fence = Fence(off=("ipmitool", "-P", "s3cret"), status=("true",))
    assert change(cordoned=True) == ("host.cordoned", "cordoned")
    assert change(cordoned=False, draining=True) == ("host.uncordoned", "not cordoned; draining")
    assert change(fence=fence) == ("host.changed", "fence set")
    assert change(fence=None, host_key="SHA256:a")[1] == "host_key: none → SHA256:a; fence removed"
    assert change(host_key="SHA256:b")[1] == "host_key: SHA256:a → SHA256:b"
    assert change(labels={"rack": "7"})[1] == "labels: none → rack=7"
    assert "10.0.0.1" in change(migration=MigrationAddress(address="10.0.0.1"))[1]
    assert "s3cret" not in str(ledger.audit())


def test_first_sight_loss_return_and_move_of_a_gpu_are_told(ledger: SqlLedger) -> None:
    [gpu] = ledger.gpus()
    values.see(ledger, "h1")
    values.see(ledger, "h1", values.board("h1", 1))
    values.see(ledger, "h1", values.board("h1", 1, device="0000:61:00.0"))
    values.see(ledger, "h1", values.board("h1", 1, device="0000:61:00.0"))
    told = [(each.event, each.gpu, each.device) for each in trail(ledger) if each.gpu]
    assert told == [
        ("gpu.found", gpu.id, "0000:41:00.0"),
        ("gpu.missing", gpu.id, "0000:41:00.0"),
        ("gpu.healthy", gpu.id, "0000:41:00.0"),
        ("gpu.moved", gpu.id, "0000:61:00.0"),
    ]
    assert ledger.audit(limit=1)[0].detail == "from 0000:41:00.0 on h1"


def test_a_boot_is_told_and_a_look_is_not(ledger: SqlLedger) -> None:
    values.see(ledger, "h1", values.board("h1", 1))
    assert [each.event for each in trail(ledger)] == ["host.added", "gpu.found"]
    values.see(ledger, "h1", values.board("h1", 1), boot_id="b2")
    assert [(each.event, each.detail) for each in ledger.audit(limit=1)] == [
        ("host.booted", "boot b2")
    ]


def test_a_host_that_goes_takes_its_gpus(ledger: SqlLedger) -> None:
    ledger.remove_host("h1")
    assert [each.event for each in trail(ledger)][-2:] == ["host.removed", "gpu.missing"]


# -- reading it ----------------------------------------------------------------------------------


def test_the_trail_is_read_newest_first_and_filtered(ledger: SqlLedger) -> None:
    for name in ("a", "b"):
        ledger.reserve(values.start(vms=[values.vm(name)]))
    newest = ledger.audit()
    assert [each.seq for each in newest] == sorted((each.seq for each in newest), reverse=True)
    assert {each.vm for each in ledger.audit(vm="a")} == {"a"}
    assert {each.host for each in ledger.audit(host="h1")} == {"h1"}
    assert ledger.audit(limit=2) == newest[:2]
    begun = newest[-1 if newest[-1].operation else 0].operation or newest[0].operation
    assert {each.operation for each in ledger.audit(operation=begun[:6])} >= {begun}
    assert [each.event for each in ledger.audit(event="vm.")] == ["vm.reserved"] * 2
    assert ledger.audit(vm="nobody") == ledger.audit(event="vm.%") == ()


def test_a_migrated_ledger_writes_a_trail(tmp_path: Path, pg: PgServer) -> None:
    """Step 3→4 makes the table that a new ledger has, on PostgreSQL too."""
    made, old = pg.database(), pg.database()
    open_ledger(made).close()
    engine = create_engine(old)
    open_ledger(old).close()
    with engine.begin() as connection:
        for statement in OLDER:
            connection.execute(text(statement))
        _trail_and_freeze(connection)
        _actors(connection)
        index_operations(connection)
        _seals(connection)
    assert shape(old) == shape(made)
    ledger = open_ledger(old)
    ledger.add_host(HostRecord(name="h1", address="root@h1"))
    assert [each.event for each in ledger.audit()] == ["host.added"]
    ledger.close()
    engine.dispose()


# A ledger of today taken back to schema 3.
OLDER = (
    "DROP TABLE audit",
    "DROP TABLE seal",
    "DROP TABLE checkpoint",
    "ALTER TABLE meta DROP COLUMN frozen_why",
    "ALTER TABLE meta DROP COLUMN frozen_at",
    "ALTER TABLE host DROP COLUMN due_at",
    "ALTER TABLE gpu DROP COLUMN state_why",
    "ALTER TABLE operation DROP COLUMN worker",
    "ALTER TABLE operation DROP COLUMN tenant",
    "ALTER TABLE operation DROP COLUMN method",
    "ALTER TABLE vm DROP COLUMN definition",
)


def shape(url: str) -> list[object]:
    """Columns and indexes as PostgreSQL has them."""
    engine = create_engine(url)
    with engine.begin() as connection:
        columns = connection.execute(
            text(
                "SELECT table_name, column_name, data_type, is_nullable, column_default "
                "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"
            )
        ).all()
        indexes = connection.execute(
            text("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1")
        ).all()
    engine.dispose()
    return [*map(tuple, columns), *map(tuple, indexes)]


def test_the_trail_tells_which_hosts_records_are_about(ledger: SqlLedger) -> None:
    start = ledger.trail_since(None)
    assert start.hosts == ()
    ledger.set_quota(Quota(tenant="a"))
    assert ledger.trail_since(start.end).hosts == ()
    ledger.raise_epoch()
    told = ledger.trail_since(start.end)
    assert [host for _, host in told.hosts] == [""]
    assert told.end == ledger.trail_since(None).end
