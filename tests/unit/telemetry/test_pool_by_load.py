"""Pools that follow what their desktops measure, on simulated hosts: figures are asked for, joined
with whose they are, noted, and desktops are made or go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.poolsim import STAFF, PoolSim, spec
from vgpumgr.app.composition import KeptLoads
from vgpumgr.engine.controller.controller_events import ControllerEvent
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.pool_task import POOL_THREAD, PoolTask
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.pools import session_activity
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.load_scale import (
    NO_LOADS,
    LoadMetric,
    MeasuredLoads,
    ScalePolicy,
    ScaleTrigger,
)
from vgpumgr.model.pool import Timeouts
from vgpumgr.store.sql_ledger import SqlLedger
from vgpumgr.telemetry.telemetry_files import TelemetryFiles
from vgpumgr.telemetry.telemetry_round import RoundResult, TelemetryOptions, TelemetryRound

GPU = "0000:41:00.0"
BUSY = ScalePolicy(
    triggers=(ScaleTrigger(metric=LoadMetric.GPU, threshold=0.9),), sustained_s=60, cooldown_s=120
)


class Newest:
    """The loads of the last round; none while ``lost``."""

    def __init__(self) -> None:
        self.result: RoundResult | None = None
        self.lost = False

    def newest(self) -> MeasuredLoads:
        if self.result is None or self.lost:
            return NO_LOADS
        sample = self.result.sample
        return MeasuredLoads(at=sample.at, vms={each.vm: each for each in sample.loads})


class Scaled:
    """A pool on one host with three T4, asked for its figures every 15 seconds."""

    def __init__(self, folder: Path, **changes: object) -> None:
        changes = {"least": 2, "spare": 0, "most": 6, "shrink_after_s": 0.0} | changes
        self.sim = PoolSim(folder, spec(**changes), "h1")  # type: ignore[arg-type]
        self.loads = Newest()
        self.engine = self.sim.engine = replace(self.sim.engine, loads=self.loads)
        self.sim.world.engine = self.engine
        self.rounds = TelemetryRound(self.engine, SerialWorkers(), TelemetryOptions())
        self.told: list[ControllerEvent] = []
        self.task = self.new_task()

    def new_task(self) -> PoolTask:
        return PoolTask(self.engine, RetryBackoff(self.sim.clock.monotonic), self.told.append)

    def later(self, seconds: float) -> int:
        """How many desktops there are after that time."""
        for _ in range(int(seconds // 15)):
            self.sim.clock.wait(15)
            self.loads.result = self.rounds.take()
            self.task.take(CycleThread(POOL_THREAD, self.sim.clock))
        return len(self.sim.rows())

    def inject(self, *words: str) -> None:
        self.sim.world.sim.inject("h1", list(words))


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[Scaled]]:
    found: list[Scaled] = []
    yield found
    for each in found:
        each.sim.world.close()


def scaled(made: list[Scaled], folder: Path, **changes: object) -> Scaled:
    made.append(Scaled(folder, **changes))
    return made[-1]


def test_a_pool_grows_while_its_gpu_is_busy_and_shrinks_when_it_has_rested(
    made: list[Scaled], tmp_path: Path
) -> None:
    pool = scaled(made, tmp_path, scale=BUSY)
    assert pool.later(60) == 2
    pool.inject("gpu", GPU, "busy")
    assert pool.later(45) == 2, "it was not busy for long enough"
    assert pool.later(60) == 3
    assert pool.later(90) == 4, "the next one once it was busy with that many for as long"
    pool.inject("gpu", GPU, "calm")
    assert pool.later(105) == 4, "it cools down first"
    assert pool.later(60) == 2, "min stays"


def test_figures_that_are_lost_take_no_desktop_away(made: list[Scaled], tmp_path: Path) -> None:
    pool = scaled(made, tmp_path, scale=BUSY)
    pool.inject("gpu", GPU, "busy")
    assert pool.later(150) == 3
    pool.loads.lost = True
    pool.inject("gpu", GPU, "calm")
    assert pool.later(900) == 3
    assert [each.state for each in pool.told if each.state == "no-figures"] == ["no-figures"]
    pool.loads.lost = False
    assert pool.later(180) == 2


def test_a_controller_that_begins_looks_first(made: list[Scaled], tmp_path: Path) -> None:
    pool = scaled(made, tmp_path, scale=BUSY)
    pool.inject("gpu", GPU, "busy")
    assert pool.later(150) == 3
    pool.inject("gpu", GPU, "calm")
    pool.task = pool.new_task()
    assert pool.later(105) == 3
    assert pool.later(60) == 2


def test_sessions_count_without_any_figures(made: list[Scaled], tmp_path: Path) -> None:
    trigger = ScaleTrigger(metric=LoadMetric.SESSIONS, threshold=0.5)
    pool = scaled(made, tmp_path, scale=replace(BUSY, triggers=(trigger,)))
    pool.loads.lost = True
    assert pool.later(60) == 2
    for user in ("ada", "bob"):
        pool.engine.assign_desktop("cad", user, STAFF)
    assert pool.later(45) == 2
    assert pool.later(60) == 4, "half of them are to be free"


def test_what_is_asked_for_is_explained(made: list[Scaled], tmp_path: Path) -> None:
    pool = scaled(made, tmp_path, scale=BUSY)
    pool.later(30)
    pool.inject("gpu", GPU, "busy")
    pool.later(15)
    [told] = pool.engine.pool_outlook("cad").triggers
    assert (told.metric, told.mean, told.told, told.wanted) == (LoadMetric.GPU, 1.0, 2, 3)


def session_of(pool: Scaled, name: str = "cad-01") -> tuple[float, float | None]:
    session = pool.sim.rows()[name].desktop.session
    assert session is not None
    return session.active, session.disconnected


def idle(made: list[Scaled], folder: Path) -> Scaled:
    times = Timeouts(idle_s=300.0, idle_below=0.2)
    pool = scaled(made, folder, least=1, timeouts=times)
    pool.later(15)
    pool.engine.assign_desktop("cad", "ada", STAFF)
    return pool


def test_a_session_whose_gpu_works_is_in_use_and_idle_once_it_rests(
    made: list[Scaled], tmp_path: Path
) -> None:
    pool = idle(made, tmp_path)
    pool.inject("gpu", GPU, "busy")
    pool.later(900)
    active, disconnected = session_of(pool)
    assert disconnected is None and active >= pool.sim.clock.now() - 75
    pool.inject("gpu", GPU, "calm")
    pool.later(330)
    assert session_of(pool)[1] is not None


def test_a_session_that_was_never_seen_at_work_is_not_said_to_be_idle(
    made: list[Scaled], tmp_path: Path
) -> None:
    pool = idle(made, tmp_path)
    pool.inject("gpu", GPU, "calm")
    pool.later(900)
    assert session_of(pool)[1] is None


def test_sessions_at_work_are_written_down_together(
    made: list[Scaled], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a transaction each: a fleet has thousands."""
    pool = idle(made, tmp_path)
    pool.later(15)
    pool.engine.assign_desktop("cad", "bob", STAFF)
    pool.inject("gpu", GPU, "busy")
    pool.later(15)
    pool.sim.clock.wait(session_activity.NOTED_EVERY_S)
    pool.loads.result = pool.rounds.take()
    written, take = list[list[str]](), SqlLedger.take_desktops

    def counted(ledger: SqlLedger, moves: Sequence[DesktopRecord]) -> tuple[DesktopRecord, ...]:
        written.append([each.name for each in moves])
        return take(ledger, moves)

    monkeypatch.setattr(SqlLedger, "take_desktops", counted)
    session_activity.note_work(pool.engine)
    assert [sorted(each) for each in written] == [["cad-01", "cad-02"]]
    now = pool.sim.clock.now()
    assert [session_of(pool, name) for name in ("cad-01", "cad-02")] == [(now, None)] * 2
    session_activity.note_work(pool.engine)
    assert len(written) == 1, "no more often than every minute"


def test_a_login_alone_keeps_no_session_whose_gpu_rests(made: list[Scaled], tmp_path: Path) -> None:
    pool = idle(made, tmp_path)
    pool.inject("gpu", GPU, "calm")
    pool.later(60)
    before = session_of(pool)[0]
    session_activity.logged_in(pool.engine, "cad-01", "ada", 1)
    assert session_of(pool)[0] == before
    pool.loads.lost = True
    session_activity.logged_in(pool.engine, "cad-01", "ada", 1)
    assert session_of(pool)[0] == pool.sim.clock.now(), "without figures the agent is believed"


def test_loads_are_kept_in_files_where_a_pool_asks_for_them(
    made: list[Scaled], tmp_path: Path
) -> None:
    plain = scaled(made, tmp_path / "plain")
    plain.later(30)
    assert plain.loads.result is not None and plain.loads.result.sample.loads == ()
    pool = scaled(made, tmp_path / "scaled", scale=BUSY)
    pool.later(30)
    assert pool.loads.result is not None
    folder = tmp_path / "telemetry"
    folder.mkdir()
    sample = replace(pool.loads.result.sample, at=time.time())
    TelemetryFiles(folder).write(replace(pool.loads.result, sample=sample))
    kept = KeptLoads(TelemetryFiles(folder)).newest()
    assert kept.vms == {each.vm: each for each in sample.loads}
    assert {each.id for each in pool.engine.ledger.vms()} == kept.vms.keys()
    TelemetryFiles(folder).write(replace(pool.loads.result, sample=replace(sample, at=0.0)))
    assert KeptLoads(TelemetryFiles(folder)).newest() == NO_LOADS, "they are old"
