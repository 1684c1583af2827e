"""``vgpumgr store``: backup, restore, check, migrate, as typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Cli, new_cli
from tests.pgserver import PgServer
from vgpumgr.model.host import HostRecord
from vgpumgr.store import open_ledger


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        yield found


def shown(cli: Cli, *args: str) -> Any:
    """What a command prints as JSON."""
    return cli.ok(*args, "-o", "json").json


def enrol(address: Path | str, *hosts: str) -> None:
    """A ledger that knows these hosts."""
    ledger = open_ledger(address)
    for host in hosts:
        ledger.add_host(HostRecord(name=host, address=f"root@{host}"))
    ledger.close()


def test_a_backup_is_restored_after_a_question(cli: Cli, tmp_path: Path) -> None:
    ledger, kept = str(tmp_path / "ledger"), str(tmp_path / "b")
    enrol(ledger, "h1")
    made = shown(cli, "--ledger", ledger, "store", "backup", kept)
    assert (made["kind"], made["name"], len(made["sha256"])) == ("Backup", kept, 64)
    enrol(ledger, "h2")
    asked = cli.fails(2, "--ledger", ledger, "store", "restore", kept, "-o", "json")
    assert "replace the ledger" in asked.error["message"]
    assert asked.error["next"] == "add -y"
    done = shown(cli, "--ledger", ledger, "store", "restore", kept, "-y")
    assert (done["epoch"], done["kept"]) == (2, f"{ledger}.replaced")
    hosts = shown(cli, "--ledger", ledger, "host", "list")["items"]
    assert [each["name"] for each in hosts] == ["h1"]
    found = cli.fails(1, "--ledger", ledger, "store", "check")
    assert "the ledger is frozen: restored from" in found.out
    assert "vgpumgr store thaw" in found.out
    drawn = cli.ok("--ledger", ledger, "map").out.splitlines()
    assert re.match(r"frozen \d+s ago, nothing is allocated or started: restored from", drawn[0])
    assert drawn[1] == "  next: vgpumgr store thaw" and drawn[2].startswith("h1")
    frozen = shown(cli, "--ledger", ledger, "map")["frozen"]
    assert frozen["why"].startswith("restored from") and frozen["at"].endswith("Z")


def test_a_sound_ledger_checks_well(cli: Cli, tmp_path: Path) -> None:
    enrol(tmp_path / "ledger", "h1")
    found = shown(cli, "--ledger", str(tmp_path / "ledger"), "store", "check")
    assert (found["kind"], found["epoch"], found["problems"]) == ("Check", 1, [])
    assert "no problem found" in cli.ok("--ledger", str(tmp_path / "ledger"), "store", "check").out


def test_a_ledger_is_carried_to_a_server_and_used_there(
    cli: Cli, tmp_path: Path, pg: PgServer
) -> None:
    source, target = str(tmp_path / "ledger"), pg.database()
    enrol(source, "h1")
    moved = shown(cli, "store", "migrate", source, target)
    assert (moved["from"], moved["epoch"]) == (source, 2)
    hosts = shown(cli, "--ledger", target, "host", "list")["items"]
    assert [each["name"] for each in hosts] == ["h1"]
    assert "moved to" in cli.fails(1, "--ledger", source, "store", "check").out
    assert "there already" in cli.fails(4, "store", "migrate", target, target).err


@pytest.mark.parametrize(
    "addresses",
    [
        ["one"],
        ["a", "postgresql://u:secret@h/d"],
        ["postgresql://h/d?password=secret", "b"],
    ],
)
def test_addresses_that_cannot_be_taken(cli: Cli, addresses: list[str]) -> None:
    failed = cli.fails(2, "store", "migrate", *addresses)
    assert "secret" not in failed.err
