"""That everything has kill points, and that the harness sees what it is there for.

``make faults`` is the whole of it. A process of its own forks, not this one.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.faults.coverage import recorded, text, wanted
from tests.faults.mortal import READS
from tests.faults.order import pairs
from tests.faults.points import Pair
from tests.faults.scenarios import ALL, ON_SERVER
from tests.faults.selftest import CASES
from tests.faults.use_cases import KILLED_IN, LOOKS
from vgpumgr.engine.heal.heal_plan import _OF_VMS, _OTHERS
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.ledger import Ledger
from vgpumgr.store import SqlLedger

Seen = dict[str, tuple[int, list[str]]]


def test_every_step_verb_and_write_has_kill_points() -> None:
    """A new one fails here until a scenario passes it: ``make faults ARGS="--dry --record"``."""
    assert recorded().keys() == {text(each) for each in wanted()}
    assert {*recorded().values(), *ON_SERVER} <= ALL.keys()


def test_every_use_case_is_killed() -> None:
    known = {name for name in {*dir(Engine)} - {*dir(EngineContext)} if not name.startswith("_")}
    changing = {name for name in known if callable(getattr(Engine, name))} - LOOKS
    assert changing == KILLED_IN.keys()
    assert set(KILLED_IN.values()) <= {each.operation for each in ALL.values()}


def test_every_difference_that_heal_ends_is_healed_and_killed() -> None:
    ended = {*_OF_VMS, *_OTHERS} - {DriftKind.FOREIGN}
    assert frozenset().union(*(each.heals for each in ALL.values())) == ended


def test_whatever_the_ledger_writes_is_a_kill_point() -> None:
    """A method that only reads says so; any other one is killed at."""
    asked = {name for name in dir(Ledger) if not name.startswith("_")}
    assert asked >= READS - {"fresh_epoch"}
    assert {name for name in READS if not hasattr(SqlLedger, name)} <= {"fresh_epoch"}


def test_pairs_are_all_there_once_and_some_of_each_scenario_come_first() -> None:
    found = {
        (name, store): [Pair(at, "again", tuple(range(1, 20))) for at in range(1, 9)]
        for name in ("a", "b", "c")
        for store in ("sqlite", "postgresql")
    }
    jobs = pairs(found, seed=7)
    assert jobs == pairs(found, seed=7) != pairs(found, seed=8)
    assert {(job.scenario, job.store) for job in jobs[:6]} == found.keys()
    done = [
        (job.scenario, job.store, pair.at, second)
        for job in jobs
        for pair in job.pairs
        for second in pair.seconds
    ]
    assert len(done) == len(set(done)) == 6 * 8 * 19


@pytest.fixture(scope="module")
def seen() -> Seen:
    argv = [sys.executable, "-m", "tests.faults.selftest"]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: Seen = json.loads(ran.stdout)
    return found


def test_kills_are_recovered_from(seen: Seen) -> None:
    killed, broken = seen[""]
    assert (killed, broken) == (2, [])


@pytest.mark.parametrize("guard", [each for each in CASES if each])
def test_a_guard_taken_away_is_seen(guard: str, seen: Seen) -> None:
    killed, broken = seen[guard]
    assert killed and broken
    assert not any("HARNESS" in each for each in broken)
