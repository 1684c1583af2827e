"""Opening a ledger: made once, private, refused in words when it cannot be used."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import event

from tests.unit.store.values import fleet, refused, start, vm
from vgpumgr.model.errors import LedgerError
from vgpumgr.model.host import HostRecord
from vgpumgr.store import SqlLedger, open_ledger


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_ledger_is_private_and_leaves_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "state" / "deep" / "ledger.sqlite"
    ledger = open_ledger(path)
    ledger.add_host(HostRecord(name="h1", address="root@h1"))
    assert mode(path.parent) == 0o700
    assert {mode(each) for each in path.parent.iterdir()} == {0o600}
    ledger.close()
    assert [each.name for each in path.parent.iterdir()] == ["ledger.sqlite"]


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "l")
    ledger.add_host(HostRecord(name="h1", address="root@h1", labels={"rack": "a"}))
    fleet_id = ledger.fleet_id()
    ledger.close()
    again = open_ledger(f"sqlite:///{tmp_path / 'l'}", create=False)
    assert again.fleet_id() == fleet_id
    assert again.epoch() == 1
    assert again.host("h1").labels == {"rack": "a"}
    again.close()


def test_every_connection_keeps_the_promises(tmp_path: Path) -> None:
    """WAL, full sync, foreign keys and a timeout: read from the connection itself."""
    ledger = open_ledger(tmp_path / "l", busy_timeout_s=3.5)
    with ledger._database.read() as connection:
        asked = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        answers = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in asked]
    assert answers == ["wal", 2, 1, 3500]
    ledger.close()


def test_many_can_make_the_same_ledger_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        ledgers = list(pool.map(lambda _: open_ledger(tmp_path / "l"), range(8)))
    assert len({ledger.fleet_id() for ledger in ledgers}) == 1
    for ledger in ledgers:
        ledger.close()


def test_without_a_ledger_lists_are_empty_and_nothing_is_made(tmp_path: Path) -> None:
    path = tmp_path / "none" / "ledger"
    view = open_ledger(path, create=False)
    lists = (view.hosts, view.gpus, view.vms, view.allocations, view.operations)
    assert [each() for each in lists] == [()] * 5
    with pytest.raises(LedgerError) as caught:
        view.add_host(HostRecord(name="h1", address="root@h1"))
    assert caught.value.next.startswith("vgpumgr host add")
    view.close()
    assert not path.parent.exists()


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    open_ledger(tmp_path / "l").close()
    with sqlite3.connect(tmp_path / "l") as raw:
        raw.execute("UPDATE meta SET schema_version = 99")
    raw.close()
    with pytest.raises(LedgerError, match="created by a newer vgpumgr"):
        open_ledger(tmp_path / "l")


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE meta (a)")
    raw.close()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_bytes(b"not SQLite at all " * 99), "not a database"),
        (lambda path: path.write_bytes(b""), "not a vgpumgr ledger"),
        (other_database, "not a vgpumgr ledger"),
        (lambda path: path.mkdir(), "cannot be opened"),
    ],
)
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(
    tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    path = tmp_path / "l"
    damage(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(LedgerError, match=says) as caught:
        open_ledger(path)
    assert caught.value.why
    assert caught.value.next
    if says != "not a vgpumgr ledger":
        assert before is None or path.read_bytes() == before


def test_a_ledger_torn_in_the_middle_is_called_damaged(tmp_path: Path) -> None:
    ledger = fleet(tmp_path / "l", [f"h{n}" for n in range(40)])
    ledger.close()
    with (tmp_path / "l").open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xff" * (os.path.getsize(tmp_path / "l") - 2 * 4096))
    with pytest.raises(LedgerError, match="damaged") as caught:
        open_ledger(tmp_path / "l").hosts()
    assert "store restore" in caught.value.next


def test_a_parent_that_is_a_file_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="cannot be created") as caught:
        open_ledger(tmp_path / "file" / "ledger")
    assert str(tmp_path / "file") in caught.value.why


def test_a_lock_held_too_long_is_an_error_not_a_hang(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "l", busy_timeout_s=0.05)
    other = sqlite3.connect(tmp_path / "l", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="locked by another process"):
        ledger.add_host(HostRecord(name="h1", address="root@h1"))
    assert ledger.hosts() == ()
    other.close()
    ledger.add_host(HostRecord(name="h1", address="root@h1"))
    ledger.close()


def fill(ledger: SqlLedger) -> None:
    """Write until the disk is full: 2 MiB."""
    for _ in range(64):
        ledger.refuse([refused("v", text="x" * 32768)])


def test_a_full_database_says_so_and_loses_nothing(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "l")
    ledger.add_host(HostRecord(name="h1", address="root@h1"))
    event.listen(
        ledger._database.engine,
        "begin",
        lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 60"),
    )
    with pytest.raises(LedgerError, match="disk is full"):
        fill(ledger)
    with pytest.raises(LedgerError, match="disk is full"):
        ledger.reserve(
            start(vms=[vm("a" * 60) for _ in range(1)] + [vm(f"v{n}") for n in range(999)])
        )
    assert (len(ledger.hosts()), ledger.vms(), ledger.operations()) == (1, (), ())
    ledger.close()


@pytest.mark.root
def test_a_full_disk_says_so_and_the_ledger_stays_readable(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", mount], check=True)
    try:
        ledger = open_ledger(mount / "l")
        ledger.add_host(HostRecord(name="h1", address="root@h1"))
        with pytest.raises(LedgerError, match=r"disk is full|disk refused"):
            fill(ledger)
        assert [host.name for host in ledger.hosts()] == ["h1"]
        ledger.close()
    finally:
        subprocess.run(["umount", mount], check=True)


@pytest.mark.root
@pytest.mark.parametrize("kib", [300, 600, 900, 1024])
def test_no_half_ledger_is_made_where_there_is_no_room_for_one(tmp_path: Path, kib: int) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", mount], check=True)
    try:
        with pytest.raises(LedgerError, match=r"disk is full|disk refused|cannot be created"):
            open_ledger(mount / "l").close()
        assert list(mount.iterdir()) == []
    finally:
        subprocess.run(["umount", "--lazy", mount], check=True)


UNPRIVILEGED = """
import os, sys
from vgpumgr.store import open_ledger
from vgpumgr.model.host import HostRecord
from vgpumgr.model.errors import LedgerError
warm = open_ledger(sys.argv[1] + "/warm", create=False)
warm.hosts(); warm.close()
if os.geteuid() == 0:
    os.setegid(65534); os.seteuid(65534)
try:
    ledger = open_ledger(sys.argv[1] + "/" + sys.argv[2])
    print("hosts", len(ledger.hosts()))
    ledger.add_host(HostRecord(name="h2", address="root@h2"))
except LedgerError as error:
    print(error.message, "|", error.why, "|", error.next)
"""


def unprivileged(folder: Path, name: str) -> str:
    """What an ordinary user is told who opens the ledger and enrols a host."""
    return subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, folder, name],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def test_an_unwritable_folder_is_said_so() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o555)
        said = unprivileged(folder, "new/ledger")
        assert "cannot be created" in said
        assert "Permission denied" in said
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_read_only_file_is_said_so_and_can_still_be_listed() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        fleet(folder / "l").close()
        folder.chmod(0o777)
        (folder / "l").chmod(0o444)
        said = unprivileged(folder, "l").splitlines()
        assert said[0] == "hosts 1"
        assert said[1].startswith("the ledger is read-only")
    finally:
        shutil.rmtree(folder)


def test_a_url_that_makes_no_sense_is_said_so() -> None:
    for url in ("nonsense://x/y", "://"):
        with pytest.raises(LedgerError) as caught:
            open_ledger(url)
        assert caught.value.next
