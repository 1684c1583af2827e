"""The harness itself, in small: a kill in every scenario that a step needs, and guards missed.

``make faults`` is the whole of it. A process of its own runs it, because it forks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.mortal import READS
from vgpumgr.model.ports import Ledger
from vgpumgr.store import SqlLedger

SEED = "1"


def faults(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    out = folder / "faults.json"
    argv = [sys.executable, "-m", "tests.faults", "--seed", SEED, "--out", str(out), *arguments]
    ran = subprocess.run(argv, capture_output=True, text=True, env=os.environ, check=False)
    assert out.exists(), ran.stderr
    return ran.returncode, json.loads(out.read_text())


def test_every_kind_of_step_has_kill_points(tmp_path: Path) -> None:
    """A step, a verb or a part of a layout that no scenario kills at fails here."""
    code, found = faults(tmp_path, "--quick", "--dry", "--store", "sqlite")
    assert (code, found["uncovered"], found["violations"]) == (0, [], [])


def test_a_kill_is_recovered_from(tmp_path: Path) -> None:
    where = ("--quick", "--store", "sqlite", "--only", "migrate-cold/mdev", "--sample", "4")
    code, found = faults(tmp_path, *where)
    assert (code, found["injections"], found["violations"]) == (0, 4, [])


@pytest.mark.parametrize(
    ("guard", "scenario", "at", "end"),
    [
        ("late intent", "create/mdev", "helper mdev_create", "undo"),
        ("blind undo", "create/mdev", "helper mdev_create", "undo"),
        ("blind release", "delete/mdev", "after delete DeleteVolume done", "resume"),
        ("no look", "create/mdev", "after create DefineDomain done", "serve"),
    ],
)
def test_a_guard_taken_away_is_seen(
    guard: str, scenario: str, at: str, end: str, tmp_path: Path
) -> None:
    where = ("--quick", "--store", "sqlite", "--only", scenario, "--at", at, "--end", end)
    code, found = faults(tmp_path, *where, "--sabotage", guard)
    assert (code, bool(found["violations"])) == (1, True)
    assert not any("HARNESS" in each for each in found["violations"])


def test_whatever_the_ledger_writes_is_a_kill_point() -> None:
    """A method that only reads says so; any other one is killed at."""
    asked = {name for name in vars(Ledger) if not name.startswith("_")}
    assert asked >= READS - {"fresh_epoch"}
    assert {name for name in READS if not hasattr(SqlLedger, name)} <= {"fresh_epoch"}
