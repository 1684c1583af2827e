"""A ledger on a full or read-only disk: what reads goes on, what writes says what is left open."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.e2e.support import Cli, Ran, finish, host, names, new_cli, until, vm

pytestmark = [pytest.mark.root, pytest.mark.thorough]

READING = [
    ("vm", "list"),
    ("vm", "show", "a"),
    ("map",),
    ("host", "list"),
    ("gpu", "list"),
    ("capacity",),
    ("operation", "list"),
    ("audit", "list"),
    ("store", "check"),
]


class Mounted:
    """Mounts that only the commands run here see."""

    def __init__(self, cli: Cli, mount: str) -> None:
        self.cli = cli
        script = f"mount --make-rprivate / && {mount} && echo up && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert _pipe(self._holder.stdout).readline() == "up\n"

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._argv(*argv), capture_output=True, text=True, timeout=120, check=False
        )

    def vgpumgr(self, ledger: Path, *args: str) -> Ran:
        return finish(self.start(ledger, *args))

    def start(self, ledger: Path, *args: str) -> subprocess.Popen[str]:
        there = ("--state-dir", str(self.cli.state), "--ledger", str(ledger))
        argv = self._argv(sys.executable, "-m", "vgpumgr", *there, *args)
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(argv, text=True, **pipes)

    def close(self) -> None:
        _pipe(self._holder.stdin).close()
        _pipe(self._holder.stdout).close()
        self._holder.wait(timeout=60)

    def _argv(self, *argv: str) -> list[str]:
        return ["nsenter", "--mount", "--target", str(self._holder.pid), "--wd=.", *argv]


def _pipe(found: IO[str] | None) -> IO[str]:
    assert found is not None
    return found


@contextmanager
def mounted(cli: Cli, mount: str) -> Iterator[Mounted]:
    made = Mounted(cli, mount)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1)))
        made.ok("apply", "-f", made.documents(vm("a", "T4-4Q")))
        yield made


@pytest.fixture
def place(cli: Cli) -> Path:
    made = cli.folder / "disk"
    made.mkdir()
    return made


def small(place: Path) -> str:
    return f"mount -t tmpfs -o size=2m,mode=700 tmpfs {place}"


def fill(there: Mounted, place: Path) -> None:
    """Take every byte that is left."""
    there.run("sh", "-c", f"cat /dev/zero > {place}/fill")
    left = there.run("df", "--output=avail", str(place)).stdout.split()[-1]
    assert left == "0", left


def test_what_reads_works_on_a_full_disk(cli: Cli, place: Path) -> None:
    with mounted(cli, small(place)) as there:
        there.run("cp", str(cli.state / "ledger.sqlite"), str(place))
        fill(there, place)
        ledger = place / "ledger.sqlite"
        for command in READING:
            ran = there.vgpumgr(ledger, *command)
            assert ran.code == 0, f"{command}: {ran.out}{ran.err}"
        ran = there.vgpumgr(ledger, "vm", "stop", "a", "--force")
        assert (ran.code == 1 and "disk is full" in ran.err) or "disk refused" in ran.err, ran.err
        assert "Traceback" not in ran.err


@pytest.mark.parametrize("log", [False, True], ids=["closed", "after-a-crash"])
def test_what_reads_works_on_a_read_only_file_system(cli: Cli, place: Path, log: bool) -> None:
    ledger = cli.state / "ledger.sqlite"
    if log:
        crashed(ledger)
    for part in cli.state.glob("ledger.sqlite*"):
        if part.is_file():
            shutil.copy(part, place)
    read_only = f"mount --bind {place} {place} && mount -o remount,ro,bind {place}"
    with mounted(cli, read_only) as there:
        there_is = place / "ledger.sqlite"
        for command in READING:
            ran = there.vgpumgr(there_is, *command)
            assert ran.code == 0, f"{command}: {ran.out}{ran.err}"
        if log:
            assert "written late" in there.vgpumgr(there_is, "host", "list", "-o", "json").out
        ran = there.vgpumgr(there_is, "vm", "stop", "a", "--force")
        assert (ran.code, "findmnt" in ran.err) == (1, True), ran.err


def crashed(ledger: Path) -> None:
    """The last commit is in the log alone, as after a power cut."""
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        "c.execute('PRAGMA wal_autocheckpoint = 0'); "
        "c.execute(\"UPDATE host SET last_error = 'written late'\"); c.commit(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(ledger)], check=True)
    (ledger.with_name(f"{ledger.name}-shm")).unlink()
    assert ledger.with_name(f"{ledger.name}-wal").stat().st_size > 0


def test_an_older_ledger_on_a_read_only_disk_says_what_to_type(cli: Cli, place: Path) -> None:
    shutil.copy(cli.state / "ledger.sqlite", place)
    with closing(sqlite3.connect(place / "ledger.sqlite")) as raw, raw:
        raw.execute("UPDATE meta SET schema_version = 3")
    read_only = f"mount --bind {place} {place} && mount -o remount,ro,bind {place}"
    with mounted(cli, read_only) as there:
        ran = there.vgpumgr(place / "ledger.sqlite", "vm", "list")
        assert (ran.code, "older vgpumgr" in ran.err, "store migrate" in ran.err) == (1, True, True)
        ran = there.vgpumgr(place / "ledger.sqlite", "store", "migrate")
        assert ran.code == 1 and "Traceback" not in ran.err, ran.err


def test_a_disk_that_fills_meanwhile_leaves_an_operation_that_is_named(
    cli: Cli, place: Path
) -> None:
    with mounted(cli, small(place)) as there:
        there.run("cp", str(cli.state / "ledger.sqlite"), str(place))
        ledger = place / "ledger.sqlite"
        cli.ok("sim", "inject", "h1", "latency", "1")  # time to fill the disk
        file = cli.documents(vm("late", "T4-4Q", replicas=3))
        apply = there.start(ledger, "apply", "-f", file)
        listing = ("operation", "list", "--open", "-o", "json")
        until(lambda: bool(names(there.vgpumgr(ledger, *listing).json["items"])), "its operation")
        fill(there, place)
        ended = finish(apply)
        cli.ok("sim", "inject", "h1", "clear")
        [operation] = names(there.vgpumgr(ledger, *listing).json["items"])
        assert ended.code == 1, ended.out + ended.err
        assert "late-01, late-02, late-03" in ended.err, ended.err
        assert f"vgpumgr operation resume {operation[:8]}" in ended.err, ended.err
        there.run("rm", str(place / "fill"))
        ran = there.vgpumgr(ledger, "operation", "resume", operation)
        assert ran.code == 0, ran.out + ran.err
        assert len(there.vgpumgr(ledger, "vm", "list", "-o", "json").json["items"]) == 4
