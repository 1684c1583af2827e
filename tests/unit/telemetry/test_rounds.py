"""Rounds: what a host that fails costs, whose a vGPU is, and counters over time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from tests.simworld import SimWorld, host, vm
from tests.unit.telemetry.world import GPU, Fleet, Read, made
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.engine.workers.thread_workers import ThreadWorkers
from vgpumgr.model.gpu_figures import VgpuFigures
from vgpumgr.model.operation import OperationRecord, OperationState
from vgpumgr.telemetry.exposition import Exposition
from vgpumgr.telemetry.figure_sampler import FigureSampler
from vgpumgr.telemetry.fleet_frame import FleetFrames, frames
from vgpumgr.telemetry.measured_series import matched
from vgpumgr.telemetry.running_totals import RunningTotals
from vgpumgr.telemetry.telemetry_round import TelemetryOptions, TelemetryRound


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from made(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(autouse=True)
def well(fleet: Fleet) -> Iterator[None]:
    yield
    for name in ("vdi", "vf", "mig"):
        fleet.inject(name, "clear")


@pytest.mark.parametrize("words", [["unreachable"], ["refuse", "figures", "EIO", "1"]])
def test_a_host_that_fails_costs_its_own_figures(fleet: Fleet, words: list[str]) -> None:
    if words[0] == "refuse":
        fleet.inject("vf", "lie", "figures", "result.gpus.0.figures.power_mw", "-1")
    else:
        fleet.inject("vf", *words)
    found = fleet.read()
    assert found.values("host_up", "host") == {
        **dict.fromkeys(("vdi", "mig", "whole", "hgx", "amd"), 1),
        "vf": 0,
    }
    assert not found.of("gpu_power_watts", host="vf")
    assert found.of("gpu_power_watts", host="mig")
    assert found.of("gpu_info", host="vf"), "what the ledger knows stays"
    assert len(found.of("vgpu_info", host="vf")) == 3


def test_a_driver_that_hangs_costs_what_it_would_have_told(fleet: Fleet) -> None:
    fleet.inject("vf", "driver-hang")
    found = fleet.read()
    assert found.value("host_probe_hung", host="vf") == 1
    assert found.value("host_up", host="vf") == 1, "the kernel has told what it knows"
    assert found.of("gpu_pcie_link", host="vf")
    assert not found.of("gpu_power_watts", host="vf")
    assert found.of("gpu_xid_total", host="vf", xid="79")


def test_a_host_that_hangs_is_left_out_and_is_not_asked_twice(fleet: Fleet) -> None:
    workers = ThreadWorkers(8)
    sampler = FigureSampler(fleet.world.hosts, workers, time.time)
    records = fleet.world.ledger.hosts()
    fleet.inject("vf", "hang")
    for _ in range(3):
        found = sampler.read(records, within_s=0.5)
        assert found["vf"].hung and found["vf"].figures is None
        assert all(each.figures for name, each in found.items() if name != "vf")
    waiting = [each for each in threading.enumerate() if each.name == "lane-vf"]
    assert len(waiting) == 1, "only the first waits for it"
    fleet.inject("vf", "clear")


def test_a_host_at_rest_is_not_asked(fleet: Fleet) -> None:
    records = [replace(each, maintenance=True) for each in fleet.world.ledger.hosts()]
    sampler = FigureSampler(fleet.world.hosts, SerialWorkers(), time.time)
    assert sampler.read(records) == {}


def test_a_lost_gpu_stays_with_its_xid_and_its_state(fleet: Fleet) -> None:
    """A GPU that falls off the bus must not just disappear."""
    fleet.inject("vf", "gpu", GPU, "lost")
    fleet.world.engine.refresh(["vf"])
    found = fleet.read()
    assert found.value("gpu_xid_total", host="vf", xid="79") == 1
    assert found.value("gpu_health_state", host="vf", state="lost") == 1
    assert not found.of("gpu_power_watts", host="vf")
    fleet.inject("vf", "clear")
    fleet.world.engine.refresh(["vf"])


def test_vgpus_of_one_vm_on_one_gpu_are_told_apart(fleet: Fleet) -> None:
    ledger = fleet.world.ledger
    view = fleet.world.engine.view()
    [gpu] = [gpu for each in frames(view) if each.record.name == "vf" for gpu in each.gpus]
    pair = ledger.vm("pair").id
    parts = [each for each in gpu.parts if each.allocation.vm_id == pair]
    known = [each for each in parts if each.allocation.placement_id is not None]
    told = [
        VgpuFigures(number=number, vm=pair, placement_id=each.allocation.placement_id)
        for number, each in enumerate(reversed(parts))
    ]
    found = matched(gpu, told)
    assert {part.name for part, _ in found if part is not None} == {each.name for each in parts}
    if len(known) == len(parts):
        for part, vgpu in found:
            assert part is not None and part.allocation.placement_id == vgpu.placement_id


def test_a_vgpu_of_others_is_theirs(fleet: Fleet) -> None:
    view = fleet.world.engine.view()
    [gpu] = [gpu for each in frames(view) if each.record.name == "vf" for gpu in each.gpus]
    [(part, _)] = matched(gpu, [VgpuFigures(number=9, uuid="u", vm="not ours")])
    assert part is None


def test_time_of_gpus_is_what_was_held(tmp_path: Path) -> None:
    """A quarter of a GPU for 100 s and a half for the last 50 s of them are 50 s of GPUs."""
    world = SimWorld(tmp_path, host("T4"))
    clock = FakeClock()
    world.engine = replace(world.engine, clock=clock)
    world.engine.refresh()
    world.apply(vm("quarter", "T4-4Q", tenant="blue"))
    rounds = TelemetryRound(world.engine, SerialWorkers(), TelemetryOptions())
    rounds.take()
    clock.wait(50.0)
    rounds.take()
    world.apply(vm("another", "T4-4Q", tenant="blue"))
    clock.wait(50.0)
    found = Read(rounds.take().text)
    assert found.value("gpu_seconds_total", tenant="blue") == pytest.approx(37.5, abs=1.0)
    assert found.value("operations_total", kind="apply", outcome="done") == 1
    assert found.value("operation_duration_seconds_count", kind="apply", outcome="done") == 1
    world.close()


def ended(number: int, took_s: float, state: OperationState) -> OperationRecord:
    times = {"started_at": 1000.0, "ended_at": 1000.0 + took_s}
    return OperationRecord(id=f"o{number}", kind="apply", state=state, epoch=1, **times)


def test_an_operation_counts_once_and_those_before_not_at_all() -> None:
    totals = RunningTotals()
    totals.pass_over([ended(1, 1.0, OperationState.DONE)])
    later = [ended(1, 1.0, OperationState.DONE), ended(2, 7.0, OperationState.FAILED)]
    for _ in range(2):
        totals.count_operations(later)
    out = Exposition()
    totals.add(out)
    found = Read(out.text())
    assert found.values("operations_total", "outcome", kind="apply") == {
        "done": 0,
        "undone": 0,
        "partly": 0,
        "failed": 1,
    }
    assert found.value("operation_duration_seconds_bucket", le="5") == 0
    assert found.value("operation_duration_seconds_bucket", le="10") == 1
    assert found.value("operation_duration_seconds_sum") == 7


def test_what_did_not_change_is_not_read_again(fleet: Fleet) -> None:
    rounds = fleet.new_rounds()
    rounds.take()
    known = rounds._readings()
    assert rounds._readings() is known
    fleet.world.engine.refresh(["amd"])
    assert rounds._readings() is not known


def test_frames_of_hosts_that_are_as_they_were_are_used_once_more(fleet: Fleet) -> None:
    made, view = FleetFrames(), fleet.world.engine.view()
    before = {each.record.name: each for each in made.of(view)}
    pair = fleet.world.ledger.vm("pair").id
    held = next(each for each in view.allocations if each.vm_id == pair)
    changed = replace(held, memory_mib=(held.memory_mib or 0) + 1)
    seen = [replace(each, observed_at=1.0) for each in view.hosts]
    later = replace(
        view,
        hosts=tuple(seen),
        allocations=tuple(changed if each is held else each for each in view.allocations),
    )
    after = {each.record.name: each for each in made.of(later)}
    [host] = [gpu.host for gpu in view.gpus if gpu.id == held.gpu]
    assert {name for name, each in after.items() if each.gpus is not before[name].gpus} == {host}
    assert all(each.record.observed_at == 1.0 for each in after.values())
    assert after[host] == next(each for each in frames(later) if each.record.name == host)
    fewer = made.of(replace(later, hosts=later.hosts[1:]))
    assert [each.record.name for each in fewer] == [each.name for each in later.hosts[1:]]
