"""Writers of one ledger file write in the order in which they came, in whichever process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import select

from vgpumgr.model.errors import DatabaseFault
from vgpumgr.store.admin.opening import open_database
from vgpumgr.store.database.connections import Database
from vgpumgr.store.database.locks import locks_folder
from vgpumgr.store.schema import meta

WRITERS = 4


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.002)


def waiting(path: Path) -> int:
    """How many wait for the folder's lock, by the kernel's own list."""
    inode = f":{locks_folder(path).stat().st_ino} "
    lines = Path("/proc/locks").read_text().splitlines()
    return sum("-> FLOCK" in each and inode in each for each in lines)


def opened(path: Path, patience_s: float = 15.0) -> Database:
    locks_folder(path).mkdir(exist_ok=True)
    return open_database(path, create=True, busy_timeout_s=patience_s)


def write(database: Database) -> None:
    with database.write():
        pass


def test_who_comes_first_writes_first(tmp_path: Path) -> None:
    path, order = tmp_path / "l", list[int]()
    holder, *others = (opened(path) for _ in range(1 + WRITERS))

    def noted(number: int) -> None:
        with others[number].write():
            order.append(number)

    with ThreadPoolExecutor(WRITERS) as pool:
        with holder.write():
            written: list[Future[None]] = []
            for number in range(WRITERS):
                written.append(pool.submit(noted, number))
                until(lambda: waiting(path) == len(written))
        for each in written:
            each.result()
    assert order == list(range(WRITERS))
    for database in (holder, *others):
        database.close()


HOLDER = """
import sys
from vgpumgr.store.admin.opening import open_database

with open_database(sys.argv[1], create=False).write():
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_killed_writer_holds_nobody_up(tmp_path: Path) -> None:
    database = opened(tmp_path / "l")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path / "l"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"writing\n"
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(write, database)
            until(lambda: waiting(tmp_path / "l") == 1)
            holder.kill()
            written.result()
    database.close()


def test_who_waits_too_long_leaves_the_line(tmp_path: Path) -> None:
    holder, late, next_one = (opened(tmp_path / "l", at) for at in (15, 0.05, 15))
    with holder.write():
        with pytest.raises(DatabaseFault, match="locked"), late.write():
            pass
        with late.read() as connection:  # a look waits for nobody
            assert connection.execute(select(meta.c.epoch)).scalar_one() == 1
    write(next_one)  # the place that was left is in nobody's way
    for database in (holder, late, next_one):
        database.close()


def test_a_line_that_moves_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than anybody would wait for one writer that stands still."""
    holder, late = opened(tmp_path / "l"), opened(tmp_path / "l", 0.01)
    turns, looked_often = count(), threading.Event()

    def moves(_: object) -> int:
        if (turn := next(turns)) > 3:
            looked_often.set()
        return turn

    monkeypatch.setattr("vgpumgr.store.database.locks._QueuedWriter._moves", moves)
    with ThreadPoolExecutor(1) as pool:
        with holder.write():
            written = pool.submit(write, late)
            assert looked_often.wait(30)
        written.result()
    for database in (holder, late):
        database.close()


def test_each_turn_moves_the_line(tmp_path: Path) -> None:
    database = opened(tmp_path / "l")
    os.utime(locks_folder(tmp_path / "l"), (0, 0))
    write(database)
    assert locks_folder(tmp_path / "l").stat().st_mtime_ns > 0
    database.close()


def test_without_a_line_sqlite_alone_referees(tmp_path: Path) -> None:
    """Nobody has claimed anything yet, or another program writes."""
    holder, late = (open_database(tmp_path / "l", create=True, busy_timeout_s=0.05) for _ in "ab")
    with holder.write(), pytest.raises(DatabaseFault, match="locked"), late.write():
        pass
    write(late)
    assert not locks_folder(tmp_path / "l").exists()
    for database in (holder, late):
        database.close()
