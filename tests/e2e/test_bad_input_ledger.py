"""A ledger that cannot be created, read or written: exit 1, the cause, and a way out."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Cli, host, new_cli, vm


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        yield found


def refused(cli: Cli, ledger: Path | str, *args: str) -> str:
    """The message and cause of a command that cannot use its ledger."""
    failed = cli.fails(1, "--ledger", str(ledger), *args, "-o", "json")
    assert failed.error["code"].partition(".")[0] == "ledger"
    assert failed.error["next"]
    return f"{failed.error['message']}: {failed.error['why']}"


def test_a_ledger_under_a_file_cannot_be_made(cli: Cli) -> None:
    blocker = Path(cli.file("", "blocker"))
    failed = cli.fails(
        1, "--ledger", str(blocker / "ledger"), "host", "add", "h", "--address", "sim://h"
    )
    assert "cannot be created" in failed.err
    assert "next: " in failed.err


def test_a_state_folder_that_is_a_file_cannot_be_used(cli: Cli) -> None:
    cli.state.write_text("")
    failed = cli.fails(1, "host", "add", "h", "--address", "sim://h")
    assert "cannot be created" in failed.err


@pytest.mark.parametrize("command", ["vm list", "host list", "map", "capacity"])
def test_a_ledger_that_is_a_folder_is_refused(cli: Cli, command: str) -> None:
    cli.state.mkdir()
    assert str(cli.state) in refused(cli, cli.state, *command.split())


def test_a_file_that_is_no_database_is_refused_and_left_alone(cli: Cli) -> None:
    path = cli.file("this is no database, though it is long enough for a header " * 20, "notes.txt")
    before = Path(path).read_bytes()
    assert "notes.txt" in refused(cli, path, "vm", "list")
    cli.fails(1, "--ledger", path, "host", "add", "h", "--address", "sim://h")
    assert Path(path).read_bytes() == before


def test_a_database_of_something_else_is_refused_and_left_alone(cli: Cli) -> None:
    path = cli.folder / "other.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    assert "not a vgpumgr ledger" in refused(cli, path, "vm", "list")
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]
    other.close()


@pytest.mark.parametrize("url", ["nonsense://x", "sqlite://", "://", "mysql://u:secret@h/d"])
def test_an_address_that_is_no_ledger_is_refused(cli: Cli, url: str) -> None:
    assert "secret" not in refused(cli, url, "vm", "list")


def test_a_server_that_is_not_there_is_refused_without_its_password(cli: Cli) -> None:
    message = refused(cli, "postgresql://u:secret@127.0.0.1:1/d", "vm", "list")
    assert "secret" not in message


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.root
def test_a_full_disk_is_told_when_the_ledger_is_made(cli: Cli, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * (2 << 20))
    failed = cli.fails(
        1, "--ledger", str(small_disk / "ledger"), "host", "add", "h", "--address", "sim://h"
    )
    assert "ledger" in failed.err
    assert "full" in failed.err or "No space" in failed.err


@pytest.mark.root
def test_a_disk_that_fills_up_stops_the_apply_which_goes_on_when_there_is_room(
    cli: Cli, small_disk: Path
) -> None:
    ledger = str(small_disk / "ledger")
    cli.sim_up(host("one", ("T4", 2)))
    cli.ok("--ledger", ledger, "host", "add", "one", "--address", "sim://one")
    given = cli.documents(vm("a", "T4-2Q", replicas=16))
    filler = small_disk / "filler"
    _fill(filler)
    failed = cli.fails(1, "--ledger", ledger, "apply", "-f", given, "-o", "json")
    assert failed.error["code"] == "ledger"
    assert "full" in f"{failed.error}"
    assert failed.error["next"]
    filler.unlink()
    cli.ok("--ledger", ledger, "apply", "-f", given)
    assert len(cli.items("--ledger", ledger, "vm", "list")) == 16
    assert cli.items("--ledger", ledger, "operation", "list", "--open") == []


def _fill(path: Path) -> None:
    """Take all room that is left but one page."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            file.truncate(max(0, file.tell() - 4096))
