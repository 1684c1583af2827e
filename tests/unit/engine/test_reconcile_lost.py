"""With `evacuate: automatic` a host that does not answer is evacuated, if it is proven off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from tests.serving import SerialCycleRunner, Served
from tests.simworld import vm
from tests.unit.engine.test_evacuate import SHARED, Bench
from vgpumgr.engine.controller import automatic_evacuation
from vgpumgr.engine.controller.controller import Controller
from vgpumgr.engine.controller.controller_events import EventKind
from vgpumgr.engine.controller.cycle_schedule import ProbePauses
from vgpumgr.model.domain import DomainState


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(automatic_evacuation, "OFF_FOR_S", 0.0)
    made = Bench(tmp_path)
    made.make(vm("desk", "T4-8Q", disks=SHARED))
    yield made
    made.world.close()


def serving(bench: Bench) -> Served:
    served = Served(bench.world.engine)
    context = bench.world.engine
    served.controller = Controller(
        context,
        SerialCycleRunner(context.clock),
        ProbePauses(30.0),
        emit=served.events.append,
        evacuates=True,
    )
    return served


def test_a_host_that_is_off_is_evacuated_where_the_setting_says_so(bench: Bench) -> None:
    bench.world.sim.inject("h1", ["off"])
    served = serving(bench)
    served.controller.once()
    assert bench.world.ledger.vm("desk").host == "h2"
    (told,) = served.told(EventKind.HOST_EVACUATED)
    assert "1 VM recreated" in told.text


def test_a_host_that_may_be_on_is_never_evacuated_nor_switched_off(bench: Bench) -> None:
    bench.lose()
    served = serving(bench)
    served.controller.once()
    assert bench.world.ledger.vm("desk").host == "h1"
    assert bench.world.sim.host("h1").faults.powered
    assert not served.told(EventKind.HOST_EVACUATED)


@pytest.mark.parametrize("after_s", [5.0, 13.0, 29.0])
def test_vms_run_elsewhere_two_minutes_after_their_host_went_off(
    tmp_path: Path, after_s: float
) -> None:
    """Whenever that is between two looks; a host that is back within half a minute is not lost."""
    bench, clock = Bench(tmp_path), FakeClock()
    bench.world.engine = replace(bench.world.engine, clock=clock)
    bench.make(vm("desk", "T4-8Q", disks=SHARED))
    served = serving(bench)
    served.serve(after_s)
    bench.world.sim.inject("h1", ["off"])
    served.serve(30.0)
    bench.back()
    served.serve(150.0)
    assert bench.world.ledger.vm("desk").host == "h1"
    bench.world.sim.inject("h1", ["off"])
    off_at = clock.monotonic()
    while bench.world.ledger.vm("desk").host == "h1" and clock.monotonic() < off_at + 300.0:
        served.serve(1.0)
    assert clock.monotonic() - off_at <= 120.0
    assert bench.state("h2") is DomainState.RUNNING
    bench.world.close()


def test_a_host_that_was_off_for_a_moment_is_not_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automatic_evacuation, "OFF_FOR_S", 3600.0)
    bench.world.sim.inject("h1", ["off"])
    served = serving(bench)
    served.controller.once()
    served.controller.once()
    assert bench.world.ledger.vm("desk").host == "h1"
