"""Backups on schedule as `serve` takes them: a failure is told once, and tried again ever later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from tests.simworld import SimWorld, host
from vgpumgr.engine.backups import backup_cycle
from vgpumgr.engine.backups.backup_cycle import BackupCycleReport, Ready
from vgpumgr.engine.controller.backup_task import BACKUP_THREAD, BackupTask
from vgpumgr.engine.controller.controller_events import ControllerEvent
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.vm_backup import BackupTarget

WEB = backup_cycle.key("vault", "web")
# Another VM's backup takes that long in the same cycle.
LONG_S = 100.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4"))
    made.ledger.set_backup_target(
        BackupTarget(name="vault", pool="backups", vms=("*",), every_s=3600.0)
    )
    yield made
    made.close()


def test_a_failure_is_tried_again_ever_later_however_long_cycles_take(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, told = FakeClock(), list[ControllerEvent]()
    refused, goes_well, tried = HostRefused("the host refuses"), False, list[float]()

    def step(context: EngineContext, ready: Ready) -> BackupCycleReport:
        report = BackupCycleReport()
        if ready(WEB):
            tried.append(clock.monotonic())
            report = BackupCycleReport(
                failed={} if goes_well else {WEB: refused}, well=frozenset([WEB] * goes_well)
            )
        clock.wait(LONG_S)
        return report

    monkeypatch.setattr(backup_cycle, "step", step)
    task = BackupTask(
        replace(world.engine, clock=clock), RetryBackoff(clock.monotonic), told.append
    )

    def serve(seconds: float) -> None:
        until = clock.monotonic() + seconds
        while clock.monotonic() < until:
            task.take(CycleThread(BACKUP_THREAD, clock))
            clock.wait(1.0)

    serve(2 * 3600.0)
    pauses = [later - before for before, later in pairwise(tried)]
    assert pauses[-1] >= 600.0 and pauses == sorted(pauses), "the pause grows"
    assert [each.subject for each in told] == [WEB], "it is told once"
    goes_well = True
    serve(3600.0)
    goes_well = False
    serve(3600.0)
    assert [each.subject for each in told] == [WEB, WEB], "it is told when it fails again"
