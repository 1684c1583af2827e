"""A ledger of an older vgpumgr: backed up, migrated in one transaction, or left as it was."""

from __future__ import annotations

import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.store import ledger_v1
from tests.unit.store.values import allocation, start, vm
from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.errors import LedgerError, StaleGeneration
from vgpumgr.store import Migration, migrate_ledger, open_ledger
from vgpumgr.store.admin import migrations
from vgpumgr.store.admin import migrations as migrating
from vgpumgr.store.schema import SCHEMA_VERSION


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    ledger_v1.make(path)
    return path


def ask(path: Path, query: str) -> list[tuple[object, ...]]:
    """Rows of a raw query."""
    raw = sqlite3.connect(path)
    try:
        return raw.execute(query).fetchall()
    finally:
        raw.close()


def tables(path: Path) -> dict[str, object]:
    """Every table with its columns, keys and unique indexes, as SQLite has them."""
    names = ask(path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return {
        str(name): (
            ask(path, f"SELECT cid, name, type, \"notnull\", pk FROM pragma_table_info('{name}')"),
            sorted(
                ask(path, f'SELECT "table", "from", "to" FROM pragma_foreign_key_list("{name}")')
            ),
            sorted(ask(path, f'SELECT "unique", origin FROM pragma_index_list("{name}")')),
        )
        for (name,) in names
    }


def test_all_that_was_in_it_is_read_and_new_fields_take_their_defaults(old: Path) -> None:
    ledger = open_ledger(old)
    [host], [gpu], [desk], [held] = (
        ledger.hosts(),
        ledger.gpus(),
        ledger.vms(),
        ledger.allocations(),
    )
    assert (ledger.fleet_id(), ledger.epoch()) == ("fleet-1", 3)
    assert (host.generation, host.labels, host.host_key) == (4, {"rack": "a"}, "SHA256:x")
    assert host.facts is not None
    assert (host.facts.cpu_model, host.facts.fabric) == ("", None)
    assert (gpu.units, gpu.generation) == (16, 2)
    assert gpu.facts.mdev_types[0].available == 3
    assert (gpu.facts.vfs, gpu.facts.mig, gpu.facts.health.value) == ((), None, "unknown")
    assert desk.spec.gpus[0].frame_rate_limiter is None
    assert held == Allocation(
        id="a-1",
        vm_id="vm-old",
        vm="desk",
        host="h1",
        gpu="gpu-00000001",
        profile="T4-4Q",
        framework="mdev",
        device="u-1",
        slots=(0, 1, 2, 3),
        type_id="nvidia-232",
        parent="0000:41:00.0",
        state=AllocationState.ACTIVE,
        created_at=60.0,
    )
    assert ledger.layouts() == ()
    ledger.close()


def test_what_was_held_stays_held(old: Path) -> None:
    ledger = open_ledger(old)
    [gpu], late = ledger.gpus(), vm("late")
    with pytest.raises(StaleGeneration):
        ledger.reserve(start(allocation(late, gpu, [3]), vms=[late]))
    ledger.reserve(start(allocation(late, gpu, [4]), vms=[late]))
    ledger.close()


def test_a_migrated_ledger_has_the_tables_of_a_new_one(old: Path, tmp_path: Path) -> None:
    open_ledger(old).close()
    open_ledger(tmp_path / "new").close()
    assert tables(old) == tables(tmp_path / "new")
    assert ask(old, "PRAGMA integrity_check") == [("ok",)]


def test_the_ledger_as_it_was_lies_beside_it(old: Path) -> None:
    told: list[Migration] = []
    open_ledger(old, migrated=told.append).close()
    backup = old.with_name("ledger.sqlite.schema-1")
    assert told == [Migration(before=1, after=SCHEMA_VERSION, backup=backup)]
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert ask(backup, "SELECT schema_version, epoch FROM meta") == [(1, 3)]
    assert ask(backup, "SELECT count(*) FROM unit") == [(4,)]
    assert {each.name for each in old.parent.iterdir()} == {old.name, backup.name}


def test_a_migrated_ledger_is_opened_without_ado(old: Path) -> None:
    told: list[Migration] = []
    for _ in range(3):
        open_ledger(old, migrated=told.append).close()
    assert len(told) == 1
    assert migrate_ledger(old) == Migration(before=SCHEMA_VERSION, after=SCHEMA_VERSION)


def test_an_earlier_backup_is_never_written_over(old: Path) -> None:
    taken = old.with_name("ledger.sqlite.schema-1")
    taken.write_text("precious")
    assert migrate_ledger(old).backup == old.with_name("ledger.sqlite.schema-1-1")
    assert taken.read_text() == "precious"


def test_reading_an_old_ledger_says_what_to_type_and_changes_nothing(old: Path) -> None:
    before = ask(old, "SELECT sql FROM sqlite_master")
    with pytest.raises(LedgerError, match="created by an older vgpumgr") as caught:
        open_ledger(old, create=False)
    assert "schema is version 1" in caught.value.why
    assert caught.value.next.startswith("vgpumgr store migrate")
    assert ask(old, "SELECT sql FROM sqlite_master") == before
    assert {each.name for each in old.parent.iterdir() if "-" not in each.name} == {old.name}
    migrate_ledger(old)
    open_ledger(old, create=False).close()


def test_there_is_nothing_to_migrate_without_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger yet"):
        migrate_ledger(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_a_newer_ledger_is_left_alone(old: Path) -> None:
    raw = sqlite3.connect(old)
    raw.execute("UPDATE meta SET schema_version = 99")
    raw.commit()
    raw.close()
    for open_it in (open_ledger, migrate_ledger):
        with pytest.raises(LedgerError, match="created by a newer vgpumgr"):
            open_it(old)
    assert ask(old, "SELECT schema_version FROM meta") == [(99,)]


def test_a_step_that_fails_leaves_the_ledger_as_it_was(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ask(old, "SELECT sql FROM sqlite_master")

    def half(connection: object) -> None:
        migrations._vfs_and_layouts(connection)  # type: ignore[arg-type]
        raise LedgerError("cut in the middle")

    with monkeypatch.context() as patched:
        patched.setattr(migrating, "STEPS", {1: half})
        with pytest.raises(LedgerError, match="cut in the middle"):
            open_ledger(old)
    assert ask(old, "SELECT sql FROM sqlite_master") == before
    assert ask(old, "SELECT schema_version FROM meta") == [(1,)]
    assert migrate_ledger(old).backup == old.with_name("ledger.sqlite.schema-1-1")


def test_without_a_backup_nothing_is_migrated(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bool:
        raise OSError(28, "No space left on device", "there")

    monkeypatch.setattr(migrating, "publish", full)
    with pytest.raises(LedgerError, match="not migrated") as caught:
        open_ledger(old)
    assert "No space left" in caught.value.why
    assert ask(old, "SELECT schema_version FROM meta") == [(1,)]


def test_of_many_who_open_it_at_once_one_migrates(old: Path) -> None:
    told: list[Migration] = []

    def open_it(_: int) -> int:
        ledger = open_ledger(old, migrated=told.append)
        found = len(ledger.allocations())
        ledger.close()
        return found

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(open_it, range(6))) == [1] * 6
    assert [each.backup for each in told if each.before == 1] == [
        old.with_name("ledger.sqlite.schema-1")
    ]


def test_a_process_that_opened_it_before_can_go_on_writing(old: Path) -> None:
    """An older vgpumgr that runs on does not name the new column: it takes its default."""
    raw = sqlite3.connect(old)
    assert raw.execute("SELECT count(*) FROM allocation").fetchone() == (1,)
    migrate_ledger(old)
    raw.execute(
        "INSERT INTO allocation (id, vm_id, vm, host, gpu, profile, framework, device, slots,"
        " type_id, parent, companions, state, generation, created_at) VALUES ('a-2', 'vm-old',"
        " 'desk', 'h1', 'gpu-00000001', 'T4-4Q', 'mdev', 'u-2', '[]', '', '', '[]', 'active', 1,"
        " 61.0)"
    )
    raw.commit()
    raw.close()
    ledger = open_ledger(old)
    assert [each.vf for each in ledger.allocations()] == [None, None]
    ledger.close()


def test_every_version_has_a_step_to_the_next() -> None:
    assert sorted(migrations.STEPS) == list(range(1, SCHEMA_VERSION))
