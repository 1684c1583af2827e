"""Cloud-init text may hold passwords: it is in the ledger for as long as a seed is made of it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

from tests.e2e.support import Cli, finish, host, names, new_cli, pool, until, vm
from vgpumgr.store import migrate_ledger
from vgpumgr.store.admin import migrations
from vgpumgr.store.schema import SCHEMA_VERSION

SECRET = "correct-horse-battery"
SHORT = {"user_data": f"#cloud-config\npassword: {SECRET}\n", "network_config": f"psk: {SECRET}\n"}
# Beyond a page: SQLite keeps it in pages of its own.
LONG = {"user_data": f"#cloud-config\n# {'x' * 20_000} {SECRET}\n"}


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1), images=["cad@1.qcow2"]))
        yield made


@pytest.fixture
def beside(cli: Cli) -> Iterator[sqlite3.Connection]:
    """Another process that has the ledger open: its log is not removed at each command's end."""
    with closing(sqlite3.connect(ledger(cli))) as connection:
        connection.execute("SELECT * FROM meta").fetchall()
        yield connection


def ledger(cli: Cli) -> Path:
    return cli.state / "ledger.sqlite"


def told(cli: Cli) -> str:
    """What commands print of the past."""
    operations = names(cli.items("operation", "list"))
    shown = [cli.ok("operation", "show", each, "-o", "json").out for each in operations]
    lists = (("vm", "list"), ("audit", "list"), ("queue", "list"), ("pool", "list"))
    return "".join([*shown, *(cli.ok(*each, "-o", "json").out for each in lists)])


def left(cli: Cli) -> list[str]:
    """Where the secret still is: files of the ledger, a backup made now, what commands print."""
    backup = cli.folder / "backup"
    for made in (backup, backup.with_name("backup.sha256")):
        made.unlink(missing_ok=True)
    cli.ok("store", "backup", str(backup))
    files = [backup, *sorted(cli.state.glob("ledger.sqlite*"))]
    held = [each.name for each in files if each.is_file() and SECRET.encode() in each.read_bytes()]
    return [*held, *(["commands"] if SECRET in told(cli) else [])]


def columns(cli: Cli) -> list[str]:
    """The tables and columns that hold the secret."""
    found = []
    with closing(sqlite3.connect(ledger(cli))) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            rows = connection.execute(f'SELECT * FROM "{table}"')
            heads = [head for head, *_ in rows.description]
            found += [
                f"{table}.{head}"
                for row in rows.fetchall()
                for head, value in zip(heads, row, strict=True)
                if SECRET in str(value)
            ]
    return sorted(set(found))


@pytest.mark.mainline
@pytest.mark.parametrize("text", [SHORT, LONG], ids=["short", "long"])
def test_the_text_of_a_seed_goes_with_its_vm(
    cli: Cli, beside: sqlite3.Connection, text: dict[str, str]
) -> None:
    cli.ok("apply", "-f", cli.documents(vm("a", cloud_init=text)))
    assert columns(cli) == ["vm.spec"]
    cli.ok("vm", "delete", "a", "--force", "-y")
    assert (columns(cli), left(cli)) == ([], [])


def test_what_was_refused_leaves_no_text(cli: Cli, beside: sqlite3.Connection) -> None:
    file = cli.documents(vm("a", "T4-16Q", cloud_init=SHORT), vm("b", "T4-16Q", cloud_init=SHORT))
    cli.fails(5, "apply", "-f", file)
    assert "fits nowhere" in cli.fails(5, "explain", "b").out
    assert (columns(cli), left(cli)) == ([], [])


def test_what_waited_leaves_no_text(cli: Cli, beside: sqlite3.Connection) -> None:
    held = vm("held", "T4-16Q")
    waits = vm("waits", "T4-16Q", queue=True, cloud_init=SHORT)
    cli.ok("apply", "-f", cli.documents(held))
    cli.ok("apply", "-f", cli.documents(waits))
    assert columns(cli) == ["queue.spec"]
    cli("serve", "--once")
    cli.ok("queue", "cancel", "waits")
    assert (columns(cli), left(cli)) == ([], [])
    cli.ok("vm", "delete", "held", "--force", "-y")
    cli.ok("apply", "-f", cli.documents(waits))  # placed at once, with its text
    cli.ok("vm", "delete", "waits", "--force", "-y")
    assert (columns(cli), left(cli)) == ([], [])


def test_what_a_pool_made_and_was_leaves_no_text(cli: Cli, beside: sqlite3.Connection) -> None:
    asked = pool(spare=1, max=1, cloud_init=SHORT)
    cli.ok("apply", "-f", cli.documents(asked))
    cli("serve", "--once")
    assert columns(cli) == ["pool.spec", "vm.spec"]
    # The next version of the pool has another text.
    cli.ok("apply", "-f", cli.documents({**asked, "cloud_init": {"user_data": "#cloud-config\n"}}))
    assert columns(cli) == ["vm.spec"]
    cli.ok("apply", "-f", cli.documents(asked))
    cli.ok("pool", "delete", "cad", "-y")

    def gone() -> bool:
        cli("serve", "--once")
        return not cli.items("vm", "list") and not cli.items("pool", "list")

    until(gone, "the pool's end")
    assert (columns(cli), left(cli)) == ([], [])


def test_after_a_crash_the_seed_is_made_of_the_vms_own_text(cli: Cli) -> None:
    file = cli.documents(vm("a", "T4-4Q", cloud_init=SHORT, disks=[{"size": "1GiB"}]))
    cli.ok("sim", "inject", "h1", "latency", "0.1")
    process = cli.process("apply", "-f", file)
    until(lambda: bool(cli.items("operation", "list", "--open")), "the apply's operation")
    os.kill(process.pid, signal.SIGKILL)
    assert finish(process).code == -signal.SIGKILL
    cli.ok("sim", "inject", "h1", "clear")
    [operation] = cli.items("operation", "list", "--open")
    assert SECRET not in cli.ok("operation", "show", operation["name"], "-o", "json").out
    cli.ok("operation", "resume", operation["name"])
    [made] = cli.items("vm", "list")
    assert (made["state"], columns(cli)) == ("active", ["vm.spec"])


def test_an_older_ledger_is_cleaned_when_it_is_migrated(cli: Cli) -> None:
    cli.ok("apply", "-f", cli.documents(vm("gone"), vm("here", cloud_init=SHORT)))
    cli.ok("vm", "delete", "gone", "--force", "-y")
    seed = {**SHORT, "pool": "default", "template": False}
    with closing(sqlite3.connect(ledger(cli))) as raw, raw:
        for table in ("vm", "request"):
            for number, spec in raw.execute(f"SELECT rowid, spec FROM {table}").fetchall():
                old = json.dumps({**json.loads(spec), "cloud_init": seed}, separators=(",", ":"))
                raw.execute(f"UPDATE {table} SET spec = ? WHERE rowid = ?", (old, number))
        kept = json.dumps({"cloud_init": seed}, separators=(",", ":"))
        raw.execute("UPDATE step SET args = ? WHERE kind = 'CreateSeed'", (kept,))
        raw.execute(
            "UPDATE host SET last_error = ?", (SECRET * 2000,)
        )  # was there, and is free now
        raw.execute("UPDATE host SET last_error = ''")
        raw.execute("UPDATE meta SET schema_version = ?", (SCHEMA_VERSION - 1,))
    assert columns(cli) == ["request.spec", "step.args", "vm.spec"]
    only = {SCHEMA_VERSION - 1: migrations._withheld}  # the later steps are in it already
    with mock.patch.object(migrations, "STEPS", only):
        migrate_ledger(ledger(cli))
    for older in cli.state.glob("ledger.sqlite.schema-*"):
        older.unlink()
    assert columns(cli) == ["vm.spec"]
    cli.ok("vm", "delete", "here", "--force", "-y")
    assert (columns(cli), left(cli)) == ([], [])
