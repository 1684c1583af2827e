"""Scheduled backups by a running `serve`: a full target, one that comes back, a killed process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Cli, finish, host, new_cli, until
from tests.e2e.test_full_disk import mounted


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1), images=["cad@1.qcow2"]))
        yield made


@pytest.fixture
def folder(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where backups are kept, by the settings of every process."""
    made = cli.folder / "kept"
    made.mkdir(mode=0o700)
    for key, value in (("EVERY", "1m"), ("TO", str(made)), ("KEEP", "2")):
        monkeypatch.setenv(f"VGPUMGR_BACKUP_{key}", value)
    return made


def backups(folder: Path) -> list[Path]:
    return sorted(each for each in folder.glob("vgpumgr-*Z") if each.is_file())


def heard(process: subprocess.Popen[str], kind: str) -> str:
    """What the next event of that kind says."""
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == kind:
            return str(event["text"])
    raise AssertionError(f"serve ended without {kind}")


def test_serve_backs_up_and_what_it_wrote_is_a_ledger(cli: Cli, folder: Path) -> None:
    process = cli.process("serve", "-o", "json")
    until(lambda: bool(backups(folder)), "a backup")
    process.send_signal(signal.SIGTERM)
    said = finish(process)
    assert said.code == 0 and '"backup-made"' in said.out
    [made] = backups(folder)
    hosts = cli.ok("--ledger", str(made), "host", "list", "-o", "json").out
    assert [each["name"] for each in json.loads(hosts)["items"]] == ["h1"]
    assert "backup" in cli("doctor").out


@pytest.mark.thorough
def test_a_killed_backup_leaves_no_backup(cli: Cli, folder: Path) -> None:
    """Killed at many moments: what bears a backup's name is one."""
    for n in range(5):
        process = cli.process("serve")
        until(lambda: any(folder.iterdir()), "the beginning of a backup")
        time.sleep(0.004 * n)
        os.kill(process.pid, signal.SIGKILL)
        finish(process)
        for made in backups(folder):
            cli.ok("--ledger", str(made), "store", "check")
            subprocess.run(["sha256sum", "-c", f"{made.name}.sha256"], cwd=folder, check=True)
        for each in folder.iterdir():
            if each.is_file():
                each.unlink()


@pytest.mark.root
@pytest.mark.thorough
@pytest.mark.timeout(300)  # a failure rests for a minute
def test_a_full_target_is_told_and_backed_up_to_once_there_is_room(cli: Cli, folder: Path) -> None:
    with mounted(cli, f"mount -t tmpfs -o size=64k,mode=700 tmpfs {folder}") as there:
        process = there.start(cli.state / "ledger.sqlite", "serve", "-o", "json")
        failed = heard(process, "backup-failed")
        assert "full" in failed.lower() or "No space" in failed
        listed = there.run("ls", "-A", str(folder)).stdout
        assert listed == "", "nothing is left of it"
        assert there.run("mount", "-o", "remount,size=16m", str(folder)).returncode == 0
        heard(process, "backup-made")
        process.send_signal(signal.SIGTERM)
        assert finish(process).code == 0
