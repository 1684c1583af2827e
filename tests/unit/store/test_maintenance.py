"""Keeping a ledger: a backup is whole, a restore freezes, a check names, a move leaves one."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete, text, update

from tests.pgserver import PgServer
from tests.unit.store import ledger_v1
from tests.unit.store.values import allocation, board, fleet, open_ledger, refused, see, start, vm
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.errors import Conflict, LedgerError, VgpumgrError
from vgpumgr.model.ledger_state import BackupFacts, LedgerRestored
from vgpumgr.model.operation import OperationMoved, OperationState, TaskMoved, TaskState
from vgpumgr.model.vm import VmState
from vgpumgr.store import SqlLedger
from vgpumgr.store import schema as tables
from vgpumgr.store.admin import maintenance
from vgpumgr.store.admin.backups import Content, table_content


def yes(_: BackupFacts) -> None:
    """Whatever the backup is, restore it."""


def put_back(url: str, path: Path) -> LedgerRestored:
    return maintenance.restore_ledger(url, path, by="eva@ctl", confirm=yes)


def lived(url: str) -> SqlLedger:
    """A ledger with one VM that was made, one that was refused, and an operation that waits."""
    ledger = fleet(url, ["h1", "h2"], gpus=2)
    web, gpu = vm("web"), ledger.gpus()[0]
    made = start(allocation(web, gpu, [0, 1]), vms=[web])
    ledger.reserve(made)
    ledger.record(TaskMoved(task=made.tasks[0].id, state=TaskState.RUNNING))
    ledger.record(
        TaskMoved(
            task=made.tasks[0].id,
            state=TaskState.DONE,
            vm_state=VmState.ACTIVE,
            allocations=AllocationState.ACTIVE,
        ),
        OperationMoved(operation=made.operation.id, state=OperationState.DONE),
    )
    ledger.refuse([refused("no", at=1.5, text="ü\0\ud800")])
    half = start(vms=[vm("half", running=False)])
    ledger.reserve(half)
    ledger.record(OperationMoved(operation=half.operation.id, state=OperationState.INTERRUPTED))
    return ledger


def inside(ledger: SqlLedger) -> Content:
    with ledger._database.read() as connection:
        return table_content(connection)


def change(ledger: SqlLedger, statement: object) -> None:
    """What no code of ours would write."""
    with ledger._database.write() as connection:
        connection.execute(statement)  # type: ignore[call-overload]


# -- backup --------------------------------------------------------------------------------------


def test_a_backup_is_a_ledger_file_with_everything_in_it(url: str, tmp_path: Path) -> None:
    ledger = lived(url)
    path = tmp_path / "b" / "today"
    path.parent.mkdir()
    made = maintenance.back_up(url, path)
    assert made.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (path.parent / "today.sha256").read_text() == f"{made.sha256}  today\n"
    assert sorted(each.name for each in path.parent.iterdir()) == ["today", "today.sha256"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    read = open_ledger(path, create=False)
    assert inside(read) == inside(ledger)
    assert made.rows == sum(count for count, _ in inside(ledger).values())
    assert (read.vms(), read.allocations(), read.hosts()) == (
        ledger.vms(),
        ledger.allocations(),
        ledger.hosts(),
    )


def test_a_backup_replaces_nothing_and_needs_a_ledger(url: str, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    fleet(url)
    with pytest.raises(LedgerError, match="exists already"):
        maintenance.back_up(url, taken)
    assert taken.read_text() == "mine"
    with pytest.raises(LedgerError, match="cannot be created"):
        maintenance.back_up(url, tmp_path / "none" / "b")
    with pytest.raises(LedgerError, match="there is no ledger yet"):
        maintenance.back_up(tmp_path / "nothing", tmp_path / "b")
    assert not (tmp_path / "b").exists()


# -- restore -------------------------------------------------------------------------------------


def test_a_restored_ledger_is_what_it_was_and_frozen_in_a_new_epoch(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = lived(url)
    maintenance.back_up(url, tmp_path / "b")
    before = (ledger.vms(), ledger.allocations(released=True), ledger.hosts(), ledger.operations())
    later = vm("later")
    made = start(allocation(later, ledger.gpus()[1], [0]), vms=[later])
    ledger.reserve(made)
    ledger.raise_epoch(7)
    ledger.close()
    done = put_back(url, tmp_path / "b")
    assert done.epoch == 8
    again = open_ledger(url)
    after = (again.vms(), again.allocations(released=True), again.hosts(), again.operations())
    assert after == before
    assert again.epoch() == 8
    frozen = again.frozen()
    assert frozen is not None
    assert frozen.why == f"restored from {tmp_path / 'b'}"
    with pytest.raises(Conflict, match="frozen"):
        again.reserve(made)
    assert done.kept is not None
    assert "later" in {each.name for each in open_ledger(done.kept, create=False).vms()}
    assert {each.event for each in again.audit()} >= {"store.restored", "store.frozen"}
    see(again, "h1", board("h1", 1), board("h1", 2), board("h1", 3))
    again.thaw(9)
    again.reserve(start(vms=[vm("after")]))


def test_a_restore_waits_until_nobody_works_with_the_ledger(url: str, tmp_path: Path) -> None:
    ledger = lived(url)
    maintenance.back_up(url, tmp_path / "b")
    before = inside(ledger)
    assert ledger.claim("serve")
    with pytest.raises(Conflict, match="the ledger is in use") as caught:
        put_back(url, tmp_path / "b")
    assert caught.value.why
    assert inside(ledger) == before


def test_a_refused_restore_changes_nothing(url: str, tmp_path: Path) -> None:
    ledger = lived(url)
    maintenance.back_up(url, tmp_path / "b")
    before = inside(ledger)
    ledger.close()

    def no(facts: BackupFacts) -> None:
        assert (facts.summed, facts.last) == (True, 70.0)
        raise VgpumgrError("not confirmed")

    with pytest.raises(VgpumgrError, match="not confirmed"):
        maintenance.restore_ledger(url, tmp_path / "b", by="", confirm=no)
    assert inside(open_ledger(url)) == before


def flip(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff" * 64)


def tear(path: Path) -> None:
    path.with_name("b.sha256").unlink()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (os.path.getsize(path) - 4096))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (flip, "not the backup that was made"),
        (tear, "damaged"),
        (lambda path: path.unlink(), "cannot be read"),
    ],
)
def test_a_damaged_backup_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    ledger = lived(str(tmp_path / "l"))
    maintenance.back_up(tmp_path / "l", tmp_path / "b")
    before = inside(ledger)
    damage(tmp_path / "b")
    with pytest.raises(LedgerError, match=says):
        put_back(str(tmp_path / "l"), tmp_path / "b")
    assert inside(ledger) == before


def test_another_fleets_backup_is_refused_but_for_a_new_ledger(tmp_path: Path) -> None:
    one, two = lived(str(tmp_path / "1")), fleet(tmp_path / "2")
    maintenance.back_up(tmp_path / "1", tmp_path / "b")
    with pytest.raises(Conflict, match="of another fleet"):
        put_back(str(tmp_path / "2"), tmp_path / "b")
    two.close()
    done = put_back(str(tmp_path / "3"), tmp_path / "b")
    assert done.kept is None
    assert open_ledger(tmp_path / "3").fleet_id() == one.fleet_id()


def test_an_older_backup_is_migrated_and_stays_as_it_was(tmp_path: Path) -> None:
    ledger_v1.make(tmp_path / "old")
    before = (tmp_path / "old").read_bytes()
    put_back(str(tmp_path / "l"), tmp_path / "old")
    assert [each.name for each in open_ledger(tmp_path / "l").vms()] == ["desk"]
    assert (tmp_path / "old").read_bytes() == before


def test_a_ledger_that_is_none_any_more_is_moved_aside(tmp_path: Path) -> None:
    lived(str(tmp_path / "l")).close()
    maintenance.back_up(tmp_path / "l", tmp_path / "b")
    tear_at = tmp_path / "l"
    tear_at.write_bytes(b"not a database at all" * 400)
    done = put_back(str(tear_at), tmp_path / "b")
    assert done.kept == tmp_path / "l.broken"
    assert done.kept.read_bytes().startswith(b"not a database")
    assert {each.name for each in open_ledger(tear_at).vms()} == {"web", "half"}


# -- check ---------------------------------------------------------------------------------------


def test_a_sound_ledger_has_no_problem_but_what_waits(url: str) -> None:
    ledger = lived(url)
    found = maintenance.check(url)
    [waits] = found.problems
    assert "apply" in waits.what
    assert waits.next.startswith("vgpumgr operation resume op-")
    assert (found.epoch, found.frozen, found.open_operations) == (1, None, 1)
    assert ledger.claim_operation(ledger.operations(open_only=True)[0].id)
    assert maintenance.check(url).problems == ()
    ledger.freeze("for a test")
    assert [each.next for each in maintenance.check(url).problems] == ["vgpumgr store thaw"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (delete(tables.unit).where(tables.unit.c.slot == 1), "holds too little"),
        (
            text("INSERT INTO unit SELECT gpu, 'memory', 7, id FROM allocation"),
            "holds too much",
        ),
        (update(tables.allocation).values(released_at=5.0), "holds too much"),
        (update(tables.vm).where(tables.vm.c.name == "web").values(state="deleted"), "is held"),
        (update(tables.gpu).values(units=1), "beyond its GPU"),
        (update(tables.vm).where(tables.vm.c.name == "web").values(host="h9"), "is on h"),
        (update(tables.operation).values(state="done"), None),
        (update(tables.task).values(state="running"), "is running"),
    ],
)
def test_a_check_names_what_is_wrong(url: str, wrong: object, says: str | None) -> None:
    ledger = lived(url)
    change(ledger, wrong)
    found = [each.what for each in maintenance.check(url).problems]
    assert (says is None) or any(says in each for each in found), found
    assert all(each.next and each.why for each in maintenance.check(url).problems)


def test_a_check_finds_damage_in_a_file(tmp_path: Path) -> None:
    lived(str(tmp_path / "l")).close()
    raw = sqlite3.connect(tmp_path / "l")
    raw.execute("DELETE FROM vm WHERE name = 'web'")
    raw.commit()
    raw.close()
    assert any("is dangling" in each.what for each in maintenance.check(tmp_path / "l").problems)


# -- to another database -------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["server", "file"])
def test_a_ledger_moves_whole_and_the_old_one_is_frozen(
    to: str, tmp_path: Path, pg: PgServer, pg_url: str
) -> None:
    places = [str(tmp_path / "l"), pg.database()]
    source, target = places if to == "server" else [pg_url, str(tmp_path / "t")]
    old = lived(source)
    before = (old.fleet_id(), old.vms(), old.allocations(), old.gpus(), old.operations())
    moved = maintenance.move_ledger(source, target, by="eva@ctl")
    new = open_ledger(target)
    assert (new.fleet_id(), new.vms(), new.allocations(), new.gpus(), new.operations()) == before
    assert (old.epoch(), new.epoch(), moved.epoch) == (1, 2, 2)
    assert new.frozen() is None
    frozen = old.frozen()
    assert frozen is not None
    assert frozen.why.startswith("moved to ")
    # The counters go on above what was copied.
    see(new, "h1", board("h1", 1), board("h1", 2))
    new.refuse([refused("x", at=2.0)])
    new.reserve(start(allocation(owner := vm("next"), new.gpus()[1], [0]), vms=[owner]))
    with pytest.raises(Conflict, match="there is a ledger in"):
        maintenance.move_ledger(source, target, by="")


def test_a_ledger_that_is_worked_with_does_not_move(url: str, tmp_path: Path) -> None:
    ledger = lived(url)
    assert ledger.claim("host:h1")
    with pytest.raises(Conflict, match="the ledger is in use"):
        maintenance.move_ledger(url, tmp_path / "t", by="")
    assert ledger.frozen() is None
    ledger.release("host:h1")
    maintenance.move_ledger(url, tmp_path / "t", by="")
