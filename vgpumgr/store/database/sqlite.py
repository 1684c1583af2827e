"""A ledger in an SQLite file: transactions, the fair write lock, the log, the file's one name.

SQLite's own waiters sleep and look again, ever more rarely: of many, some never find
the lock free. The kernel wakes those who wait for a file lock in their order, and a
process that dies leaves the line. SQLite's lock stays the referee, so a process that
finds no line goes straight to it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from sqlite3 import OperationalError
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from vgpumgr.model.errors import ClaimLost, Conflict
from vgpumgr.store.database.faults import locked
from vgpumgr.store.database.process_locks import locks_folder
from vgpumgr.store.database.redaction import OWED
from vgpumgr.store.database.transactions import Begin, Database

_WRITES = "vgpumgr_writes"


def file_database(path: str, busy_timeout_s: float) -> Database:
    """SQLite on a file: WAL, every commit synced, foreign keys checked; writers in a line."""
    engine = create_engine(
        URL.create("sqlite", database=path),
        connect_args={"timeout": busy_timeout_s},
        max_overflow=-1,
        hide_parameters=True,
    )
    line = WriteLock(locks_folder(Path(path)))
    reads, writes = _sqlite(engine)
    require_same = same_file(Path(path))
    log = WriteAheadLog(engine)

    @contextmanager
    def reads_of_it() -> Iterator[Connection]:
        require_same()
        with reads() as connection:
            yield connection

    @contextmanager
    def writes_in_line() -> Iterator[Connection]:
        with line.turn(busy_timeout_s) as is_ours:
            if not is_ours:
                raise locked(path)
            require_same()
            with writes() as connection:
                yield connection
                log.owes(connection)
            log.clear()

    return Database(engine, path, reads=reads_of_it, writes=writes_in_line)


def memory_database(where: str) -> Database:
    """An SQLite database that lives in this process only; its threads share one connection."""
    engine = create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    reads, writes = _sqlite(engine)
    lock = threading.Lock()

    def one_at_a_time(begin: Begin) -> Begin:
        @contextmanager
        def turn() -> Iterator[Connection]:
            with lock, begin() as connection:
                yield connection

        return turn

    return Database(engine, where, reads=one_at_a_time(reads), writes=one_at_a_time(writes))


def _sqlite(engine: Engine) -> tuple[Begin, Begin]:
    """How reads and writes begin. BEGIN is taken from the driver: a write must hold the lock
    before its first read.
    """

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL").close()
        connection.execute("PRAGMA secure_delete = ON").close()
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine.begin, engine.execution_options(**{_WRITES: True}).begin


class WriteAheadLog:
    """The log of one ledger file. What a reader stands in the way of is done after a later write,
    or when the last process closes the ledger.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._owed = False

    def owes(self, connection: Connection) -> None:
        """Remember what a transaction that is about to commit asks for."""
        self._owed = bool(connection.info.pop(OWED, False)) or self._owed

    def clear(self) -> None:
        """Carry the log into the file and cut it to nothing, where that is owed and can be."""
        if not self._owed:
            return
        with closing(self._engine.raw_connection()) as connection, suppress(OperationalError):
            cursor = connection.cursor()
            [patience_ms] = cursor.execute("PRAGMA busy_timeout").fetchone()
            cursor.execute("PRAGMA busy_timeout = 0")
            try:
                busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                cursor.execute(f"PRAGMA busy_timeout = {patience_ms}")
            self._owed = bool(busy)


class WriteLock:
    """The line of one ledger file: the lock of a folder that is its own.

    A folder that is not there has no line: nobody has claimed anything on that ledger yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def turn(self, patience_s: float) -> Iterator[bool]:
        """Our turn, until the block ends; False once nobody had one for ``patience_s``."""
        place = self._place()
        if place is None:
            yield True
            return
        try:
            yield place.reached(patience_s)
        finally:
            place.leave()

    def _place(self) -> _QueuedWriter | None:
        with suppress(OSError):
            return _QueuedWriter(os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        return None


class _QueuedWriter:
    """One place in the line. The kernel gives a lock no deadline, so a thread waits for it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._here = threading.Event()
        self._left = False
        self._guard = threading.Lock()

    def reached(self, patience_s: float) -> bool:
        """Wait for our turn for as long as the line moves; False where it does not."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._here.set()
        except BlockingIOError:
            threading.Thread(target=self._wait, name="ledger line", daemon=True).start()
        except OSError:  # a file system without locks has no line
            self._here.set()
        seen = self._moves()
        while not self._here.wait(patience_s):
            before, seen = seen, self._moves()
            if seen == before:
                return False
        with suppress(OSError):
            os.utime(self._descriptor)
        return True

    def leave(self) -> None:
        """Let the next one in; from a place still waited for, as soon as it is reached."""
        with self._guard:
            self._left = True
            if self._here.is_set():
                os.close(self._descriptor)

    def _moves(self) -> int:
        """Another number after each turn: whoever has it touches the folder."""
        return os.fstat(self._descriptor).st_mtime_ns

    def _wait(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._guard:
            self._here.set()
            if self._left:
                os.close(self._descriptor)


# SQLite's log, the claims and the line of writers lie beside the file, found by its name. Two names
# of one file would have two of each, and two workers would never meet. A symbolic link and another
# path of the folder (a bind mount of it) lead to the same name; a hard link and a bind mount of the
# file alone do not.


_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def require_one_name(path: Path) -> None:
    """Conflict where the file has another name too, or is a mount of its own."""
    found = path.stat()
    names = found.st_nlink if stat.S_ISREG(found.st_mode) else 1
    if names > 1:
        raise Conflict(
            f"the ledger {path} is one file under {names} names",
            why="its log and its locks lie beside a name: a process that "
            "uses the other name would miss them",
            next=f"find {path.parent} -xdev -samefile {path}   (remove all names but one)",
        )
    if _is_mount(path):
        raise Conflict(
            f"the ledger {path} is mounted as a single file",
            why="its log and its locks lie beside it, outside of the mount",
            next=f"umount {path}, and mount the folder that the ledger is in",
        )


def same_file(path: Path) -> Callable[[], None]:
    """A check for later: ClaimLost once another file lies at the path, or none."""
    there = _identity(path)

    def require() -> None:
        if there is not None and _identity(path) != there:
            raise ClaimLost(
                "the ledger's file was replaced while this process worked with it",
                why=f"{path} is not the file that was opened",
                next="the same command again; then vgpumgr operation list",
            )

    return require


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_mount(path: Path) -> bool:
    """Is something mounted on the file itself? Not known where the kernel does not tell."""
    try:
        lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return False
    return any(_place(line) == os.fspath(path) for line in lines)


def _place(line: str) -> str:
    """Where a mount is (the fifth field, with blanks and backslashes escaped in octal)."""
    fields = line.split()
    place = fields[4] if len(fields) > 4 else ""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), place)


_HERE = -100  # AT_FDCWD
_NOREPLACE = 1


def publish(made: Path, path: Path) -> bool:
    """Move ``made`` to ``path``, both on disk when it returns; False when something is there.

    The file never has two names: whoever opens it at once finds it with one.
    """
    _sync(made)
    try:
        if not _renamed(made, path):
            os.link(made, path)
            made.unlink()
    except FileExistsError:
        return False
    _sync(path.parent)
    return True


def _renamed(made: Path, path: Path) -> bool:
    """Rename over nothing; False where the C library or the file system cannot."""
    import ctypes  # rarely needed, and slow to import

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(made), _HERE, os.fsencode(path), _NOREPLACE) == 0:
        return True
    number = ctypes.get_errno()
    if number in {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}:
        return False
    raise OSError(number, os.strerror(number), os.fspath(path))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
