"""Rows that nobody can read: `store check` names each, and commands say what to type."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.e2e.support import Cli, host, new_cli, run_argv, vm

# What is damaged, and a command that reads it.
CASES = [
    ("allocation", "companions", '"x', ("vm", "list")),
    ("vm", "spec", '{"name": 7}', ("vm", "list")),
    ("gpu", "facts", "{}", ("gpu", "list")),
    ("host", "settings", '{"labels', ("map",)),
    ("step", "args", "[]", ("operation", "resume")),
    ("meta", "epoch", "soon", ("vm", "stop", "a", "--force")),
    ("vm", "state", "dreaming", ("vm", "list")),
    ("host", "observed_at", "yesterday", ("host", "list")),
]


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1)))
        made.ok("apply", "-f", made.documents(vm("a", "T4-4Q")))
        yield made


@pytest.fixture
def kept(cli: Cli) -> Iterator[str]:
    """A backup; the ledger is as it was afterwards."""
    ledger = cli.state / "ledger.sqlite"
    before = ledger.read_bytes()
    yield str(ledger)
    ledger.write_bytes(before)


def damage(ledger: str, table: str, column: str, text: str) -> None:
    with closing(sqlite3.connect(ledger)) as raw, raw:
        raw.execute(f"UPDATE {table} SET {column} = ?", (text,))
        if table == "step":
            raw.execute("UPDATE operation SET state = 'interrupted', ended_at = NULL")
            raw.execute("UPDATE task SET state = 'running'")


@pytest.mark.mainline
@pytest.mark.parametrize(
    ("table", "column", "text", "command"), CASES, ids=[f"{each[0]}.{each[1]}" for each in CASES]
)
def test_a_damaged_row_is_named_and_no_traceback_comes(
    cli: Cli, kept: str, table: str, column: str, text: str, command: tuple[str, ...]
) -> None:
    if command[-1] == "resume":
        command = (*command, cli.items("operation", "list")[0]["name"])
    damage(kept, table, column, text)
    checked = cli("store", "check")
    assert checked.code == 1, checked.out + checked.err
    said = checked.out + checked.err
    assert "damaged: " in said and (table in said or table == "meta"), said
    assert "vgpumgr store restore BACKUP" in said
    argv = ("vgpumgr", "--state-dir", str(cli.state), *command, "-o", "json")
    ran = run_argv(*(argv if command[0] != "operation" else argv[:-2]))
    assert ran.code == 1, ran.out + ran.err
    assert "damaged: " in ran.err and "vgpumgr store restore BACKUP" in ran.err, ran.err
    if command[0] != "operation":
        assert ran.error["code"] == "ledger.damaged"
