"""A PostgreSQL server of the tests' own: unix socket only, durable as in life, killed at will."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER = "vgpumgr"
_START_S = 120.0


def binaries() -> Path | None:
    """Where Debian keeps the server's programs, newest version; None when they are missing."""
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(found, key=lambda path: int(path.parts[-3]), default=None)
    return newest.parent if newest else None


class PgServer:
    """One cluster in a temporary folder. The server refuses root: root runs it as ``postgres``."""

    def __init__(self, folder: str | None = None) -> None:
        found = binaries()
        if found is None:
            raise RuntimeError("PostgreSQL is not installed: tools/setup.sh test")
        self._bin = found
        # Short, because a socket's path has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="vgpg-", dir=folder or "/tmp"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self._data = self.folder / "data"
        self._postmaster: subprocess.Popen[bytes] | None = None
        made = ["--username", USER, "--auth", "trust", "--encoding", "UTF8", "--no-sync"]
        self._run("initdb", "--pgdata", str(self._data), "--locale", "C.UTF-8", *made)

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        assert self._postmaster is not None
        return self._postmaster.pid

    def start(self) -> None:
        """Start and wait until it answers; after :meth:`kill` it recovers first."""
        deadline = time.monotonic() + _START_S
        while not self._started(deadline):
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start: {self._log.read_text()[-2000:]}")

    def stop(self) -> None:
        """Fast shutdown."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL the postmaster; its backends notice and go."""
        self._end(signal.SIGKILL)

    def database(self, template: str = "template1") -> str:
        """A fresh database's URL, empty or a copy of ``template``."""
        name = f"t{uuid.uuid4().hex[:12]}"
        self.sql(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def url(self, database: str) -> str:
        """The address of a database here."""
        return f"postgresql+psycopg://{USER}@/{database}?host={self.folder}"

    def name(self, url: str) -> str:
        """The name of the database at an address."""
        return url.partition("@/")[2].partition("?")[0]

    def end_sessions(self, url: str) -> None:
        """End every connection to a database, as an administrator or a failover does."""
        self.sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            f"WHERE datname = '{self.name(url)}' AND pid <> pg_backend_pid()"
        )

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement outside of a transaction; its rows."""
        import psycopg

        with psycopg.connect(
            host=str(self.folder), user=USER, dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        """Stop it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _started(self, deadline: float) -> bool:
        """Launch once; False when it ended at once, as it does beside a dead one's backends."""
        with self._log.open("ab") as log:
            self._postmaster = subprocess.Popen(
                [
                    *(*_as_postgres("INT"), str(self._bin / "postgres"), "-D", str(self._data)),
                    *("-k", str(self.folder), "-c", "listen_addresses="),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        while self._postmaster.poll() is None and time.monotonic() < deadline:
            if self._answers():
                return True
            time.sleep(0.02)
        return False

    def _answers(self) -> bool:
        import psycopg

        try:
            self.sql("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, number: signal.Signals) -> None:
        if self._postmaster is not None:
            self._postmaster.send_signal(number)
            self._postmaster.wait(_START_S)
            self._postmaster = None

    def _run(self, program: str, *options: str) -> None:
        command = [*_as_postgres(), str(self._bin / program), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if done.returncode:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr}")


def _as_postgres(at_parents_death: str = "clear") -> list[str]:
    """The prefix that makes a program run unprivileged, and end with the tests."""
    argv = ["setpriv", "--pdeathsig", at_parents_death]
    if os.geteuid() == 0:
        argv += ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
    return argv


@contextmanager
def running(folder: str | None = None) -> Iterator[PgServer]:
    """A started server in a folder of its own there, gone with it at the end."""
    server = PgServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.remove()
