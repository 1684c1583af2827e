"""What befalls a ledger while the API works with it: locks, full disks, other files, restores."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path

from tests.api.listener import EventListener
from tests.apiserver import Answer, ApiServer
from tests.e2e.support import Cli, until
from vgpumgr.store.sql_ledger import SqlLedger

STOP = {"names": ["v00"], "force": True}
START = {"names": ["v00"]}
READS = ("/v1/vms", "/v1/operations", "/v1/hosts", "/v1/gpus")


def is_problem(answer: Answer, *statuses: int) -> bool:
    """A problem document of one of these statuses."""
    told = answer.headers.get("content-type") == "application/problem+json"
    return told and answer.status in statuses and bool(answer.body["message"])


def unread(server: ApiServer) -> list[str]:
    """Which reads are not answered."""
    answers = {path: server.ask("GET", path) for path in READS}
    return [f"{path}: {each.status} {each.body}" for path, each in answers.items()
            if each.status != 200]  # fmt: skip


def works(server: ApiServer) -> list[str]:
    """Can a VM be stopped and started?"""
    wrong = []
    for verb, body in (("stop", STOP), ("start", START)):
        answer = server.ask("POST", f"/v1/vms:{verb}?wait=60s", body)
        if answer.status != 200 or answer.body["kind"] != "Outcome":
            wrong.append(f"{verb}: {answer.status} {answer.body}")
    return wrong


def locked(cli: Cli, server: ApiServer) -> list[str]:
    """Another process holds the write lock: reads are answered, a change is refused or waits."""
    with closing(sqlite3.connect(cli.state / "ledger.sqlite", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        wrong = unread(server)
        answer = server.ask("POST", "/v1/hosts:cordon", {"names": ["h0"]})
        if not is_problem(answer, 503, 409):
            wrong.append(f"a change: {answer}")
        wrong += unread(server)
        holder.execute("ROLLBACK")
    return wrong + works(server)


def restored(cli: Cli, server: ApiServer, ledger: SqlLedger) -> list[str]:
    """A backup is restored while the API works: its streams go on, in order, with new numbers."""
    backup = cli.folder / f"backup-{time.monotonic_ns()}"
    cli.ok("store", "backup", str(backup))
    wrong = works(server)
    listener = EventListener(server, ledger.trail_since(None).end)
    listener.reach(0, 1)
    last = ledger.trail_since(None).end
    ran = cli("store", "restore", str(backup), "-y")
    if ran.code:
        return [*wrong, f"restore: {ran.err}"]
    end = ledger.trail_since(None).end
    if not listener.reach(end, 20) or listener.heard[0][0] <= last:
        wrong.append(f"{end} is not heard after {last}: {listener.heard[-3:]}")
    listener.end()
    frozen = server.ask("POST", "/v1/vms:start", START)
    if frozen.status >= 500:
        wrong.append(f"a start in a frozen ledger: {frozen}")
    ran = cli("store", "thaw", "--apply", "-y")
    if ran.code:
        wrong.append(f"thaw: {ran.err}")
    return wrong + unread(server)


def replaced(cli: Cli, server: ApiServer) -> list[str]:
    """Another file comes into the ledger's place: the API opens it."""
    path, other = cli.state / "ledger.sqlite", cli.folder / "other.sqlite"
    with suppress(FileNotFoundError):
        other.unlink()
    cli.ok("store", "backup", str(other))
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
    other.replace(path)
    told: list[Answer] = []

    def answers() -> bool:
        with suppress(OSError, HTTPException):
            told.append(server.ask("GET", "/v1/vms"))
            return told[-1].status == 200
        return False

    until(answers, "the API on the new file")
    wrong = [f"meanwhile: {each}" for each in told[:-1] if not is_problem(each, 503)]
    if server.process.poll() is not None:
        wrong.append("it has ended")
    return wrong + works(server)


def full_disk(cli: Cli) -> list[str]:
    """A ledger on a disk of its own that is full: reads go on, changes are refused."""
    if os.geteuid() != 0:
        return []
    place = cli.folder / "disk"
    place.mkdir(exist_ok=True)
    script = (f"mount --make-rprivate / && mount -t tmpfs -o size=3m,mode=700 tmpfs {place} && "
              f"cp {cli.state}/ledger.sqlite {place} && echo up && exec cat")  # fmt: skip
    holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n"
    enter = ["nsenter", "--mount", "--target", str(holder.pid), "--wd=."]

    def there(script: str) -> None:
        subprocess.run([*enter, "sh", "-c", script], check=False, capture_output=True)

    server = ServerThere(cli, enter, place / "ledger.sqlite")
    try:
        there(f"cat /dev/zero > {place}/fill")
        wrong = unread(server)
        for verb, body in (("stop", STOP), ("start", START)):
            answer = server.ask("POST", f"/v1/vms:{verb}?wait=20s", body)
            if not (is_problem(answer, 503) or answer.status < 300):
                wrong.append(f"{verb}: {answer}")
        wrong += unread(server)
        there(f"rm {place}/fill")
        return wrong + works(server)
    finally:
        server.end()
        holder.stdin.close()
        holder.wait(60)


class ServerThere(ApiServer):
    """An API that sees another mount, on a ledger that is there."""

    def __init__(self, cli: Cli, enter: list[str], ledger: Path) -> None:
        self._enter = enter
        self._ledger = ledger
        super().__init__(cli, name="there")

    def start(self) -> None:
        argv = [*self._enter, sys.executable, "-m", "vgpumgr", "--state-dir", str(self.cli.state)]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(
            [*argv, "--ledger", str(self._ledger), "api", *self.argv], text=True, **pipes
        )
        until(self._answers, "the API on another disk")


def ledger_cases(cli: Cli, server: ApiServer) -> dict[str, Callable[[], list[str]]]:
    """Those that `serve` must not notice."""
    return {
        "locked ledger": lambda: locked(cli, server),
        "full disk": lambda: full_disk(cli),
    }


def other_ledger_cases(
    cli: Cli, server: ApiServer, ledger: SqlLedger
) -> dict[str, Callable[[], list[str]]]:
    """Another ledger comes into the place of the first: no `serve` may be at work then."""
    return {
        "restored ledger": lambda: restored(cli, server, ledger),
        "replaced ledger": lambda: replaced(cli, server),
    }
