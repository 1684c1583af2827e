"""Replicas that follow what their vGPUs do, on simulated hosts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from tests.simworld import SimWorld, host, vm
from tests.unit.telemetry.test_pool_by_load import BUSY, GPU, Newest
from vgpumgr.endpoints.documents import with_grown
from vgpumgr.endpoints.replica_surplus import surplus
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.group_task import GROUP_THREAD, GroupTask
from vgpumgr.engine.controller.retry_backoff import RetryBackoff
from vgpumgr.engine.vms.group_scale import ReplicaGroup, groups
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.model.load_scale import GroupScale, LoadWindow
from vgpumgr.model.vm import VmSpec
from vgpumgr.spec import Documents
from vgpumgr.store import open_ledger
from vgpumgr.store.sql_ledger import SqlLedger
from vgpumgr.telemetry.telemetry_round import TelemetryOptions, TelemetryRound

WEB = GroupScale(group="web", least=2, most=4, policy=BUSY)


def replica(number: int, scale: GroupScale = WEB) -> VmSpec:
    return replace(vm(scale.name(number), "T4-4Q"), scale=scale)


class Scaled:
    """A group on hosts of one T4, asked for their figures every 15 seconds."""

    def __init__(self, folder: Path, scale: GroupScale = WEB, hosts: int = 1) -> None:
        self.folder, self.clock, self.loads = folder, FakeClock(), Newest()
        names = [f"h{number}" for number in range(1, hosts + 1)]
        self.world = SimWorld(folder, *(host("T4", name=name) for name in names))
        engine = replace(self.world.engine, clock=self.clock, loads=self.loads)
        self.engine = self.world.engine = engine
        self.engine.refresh()
        self.world.apply(*(replica(number, scale) for number in range(1, scale.least + 1)))
        self.rounds = TelemetryRound(self.engine, SerialWorkers(), TelemetryOptions())
        self.told: list[ControllerEvent] = []
        patience = RetryBackoff(self.clock.monotonic)
        self.task = GroupTask(self.engine, patience, self.told.append)

    def later(self, seconds: float) -> list[str]:
        """The VMs after that time."""
        for _ in range(int(seconds // 15)):
            self.clock.wait(15)
            self.engine.refresh()
            self.loads.result = self.rounds.take()
            self.task.take(CycleThread(GROUP_THREAD, self.clock))
        return self.names()

    def names(self) -> list[str]:
        return sorted(each.name for each in self.engine.ledger.vms())

    def inject(self, *words: str) -> None:
        self.world.sim.inject("h1", list(words))

    def kinds(self) -> list[EventKind]:
        return [each.kind for each in self.told]


@pytest.fixture
def made() -> Iterator[list[Scaled]]:
    found: list[Scaled] = []
    yield found
    for each in found:
        each.world.close()


def scaled(made: list[Scaled], folder: Path, **changes: object) -> Scaled:
    made.append(Scaled(folder, **changes))  # type: ignore[arg-type]
    return made[-1]


def test_there_are_more_replicas_while_their_gpu_is_busy_and_fewer_when_it_has_rested(
    made: list[Scaled], tmp_path: Path
) -> None:
    group = scaled(made, tmp_path)
    assert group.later(60) == ["web-01", "web-02"]
    group.inject("gpu", GPU, "busy")
    assert group.later(45) == ["web-01", "web-02"], "it was not busy for long enough"
    assert group.later(60) == ["web-01", "web-02", "web-03"]
    assert group.later(300) == [f"web-0{number}" for number in range(1, 5)], "max is four"
    assert group.engine.ledger.vm("web-04").running
    group.inject("gpu", GPU, "calm")
    assert len(group.later(105)) == 4, "they cool down first"
    assert group.later(60) == ["web-01", "web-02"], "the last ones go first, min stays"
    assert set(group.kinds()) == {EventKind.GROUP_SCALED}
    assert group.engine.ledger.operations(open_only=True) == ()


def test_figures_that_are_lost_delete_no_replica(made: list[Scaled], tmp_path: Path) -> None:
    group = scaled(made, tmp_path)
    group.inject("gpu", GPU, "busy")
    assert len(group.later(120)) == 3
    group.loads.lost = True
    group.inject("gpu", GPU, "calm")
    assert len(group.later(900)) == 3


def test_a_host_that_does_not_answer_keeps_its_replicas(made: list[Scaled], tmp_path: Path) -> None:
    group = scaled(made, tmp_path)
    group.inject("gpu", GPU, "busy")
    assert len(group.later(120)) == 3
    group.inject("gpu", GPU, "calm")
    group.later(90)
    record = group.engine.ledger.host("h1")
    there = groups(group.engine.ledger.vms())[0]
    group.engine.ledger.observation_failed("h1", "it does not answer")
    from vgpumgr.engine.vms import group_scale

    assert record.name == "h1"
    assert group_scale.resize(group.engine, there, LoadWindow(most=0)) is None
    assert len(group.names()) == 3


def test_what_finds_no_place_is_told_once(made: list[Scaled], tmp_path: Path) -> None:
    group = scaled(made, tmp_path, scale=replace(WEB, most=9, least=4))
    group.inject("gpu", GPU, "busy")
    assert len(group.later(400)) == 4, "a T4 has room for four"
    assert group.kinds() == [EventKind.GROUP_WAITS]
    assert "web has not as many replicas as its load asks for" in group.told[0].text


def test_a_replica_that_a_person_deleted_comes_back_by_load_alone(
    made: list[Scaled], tmp_path: Path
) -> None:
    group = scaled(made, tmp_path)
    group.engine.delete(["web-01"], keep_disks=False, force=True)
    group.inject("gpu", GPU, "calm")
    assert group.later(200) == ["web-02"]
    group.inject("gpu", GPU, "busy")
    assert group.later(120) == ["web-01", "web-02"]


def test_vms_are_read_as_often_as_loads_are_noted(
    made: list[Scaled], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`serve` takes the cycle every second, and when another process has changed anything."""
    group = scaled(made, tmp_path)
    group.later(30)
    reads, read = count(), SqlLedger.vms
    monkeypatch.setattr(SqlLedger, "vms", lambda ledger: (next(reads), read(ledger))[1])
    for _ in range(100):
        group.clock.wait(1)
        group.task.take(CycleThread(GROUP_THREAD, group.clock))
    assert next(reads) == 10


def test_one_controller_has_the_turn(made: list[Scaled], tmp_path: Path) -> None:
    group = scaled(made, tmp_path)
    group.inject("gpu", GPU, "busy")
    other = open_ledger(tmp_path / "ledger.db")
    assert other.claim(GROUP_THREAD)
    assert len(group.later(150)) == 2
    other.close()
    assert len(group.later(15)) == 3, "it has noted the load all the while"


def test_a_file_has_the_replicas_that_are_there_by_load(made: list[Scaled], tmp_path: Path) -> None:
    """`apply` changes them as the others; those beyond a smaller max are too many."""
    group = scaled(made, tmp_path)
    group.world.apply(replica(3), replica(4))
    again = tuple(replace(replica(number), vcpus=3) for number in (1, 2))
    found = with_grown(Documents(vms=again), group.engine.ledger)
    assert [(each.name, each.vcpus) for each in found.vms] == [
        (f"web-0{number}", 3) for number in range(1, 5)
    ]
    less = tuple(replica(number, replace(WEB, most=3)) for number in (1, 2))
    names = [each.name for each in with_grown(Documents(vms=less), group.engine.ledger).vms]
    assert names == ["web-01", "web-02", "web-03"]
    assert surplus(names, group.names()) == ["web-04"]
    other = tuple(replace(each, tenant="red") for each in again)
    assert with_grown(Documents(vms=other), group.engine.ledger).vms == other


def test_free_numbers_are_taken_first_and_never_more_than_max(
    made: list[Scaled], tmp_path: Path
) -> None:
    group = scaled(made, tmp_path)
    [there] = groups(group.engine.ledger.vms())
    assert isinstance(there, ReplicaGroup)
    more = there.more(9, {"web-01", "web-02", "web-03"})
    assert [each.name for each in more] == ["web-04"]
    assert [WEB.number(name) for name in ("web-07", "web-123", "web-007", "web", "other-01")] == [
        *(7, 123, 0, 0, 0)
    ]
