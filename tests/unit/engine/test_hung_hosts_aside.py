"""Layouts, drain and evacuation wait for the hosts that they need, on virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from tests.hanging import DEADLINE_S, SlowHosts
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.hosts.host_drain import DrainRequest
from vgpumgr.engine.use_cases import Engine
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.layout import VFS_MAX, GpuLayout, LayoutRule, LayoutSpec
from vgpumgr.model.ports import WAIT_LIMITS

NAMES = tuple(f"h{number}" for number in range(1, 6))
HUNG = "h5"
LOOK_S = 0.5


class Bench:
    """h1 has a VM; each look takes half a second, and h5 hangs."""

    def __init__(self, folder: Path) -> None:
        boards = ("T4", "A2")
        self.world = SimWorld(folder, *(host(*boards, name=name) for name in NAMES))
        self._clock = FakeClock()
        for name in NAMES:
            self.change(name, migration=MigrationAddress(address=name), cordoned=name != "h1")
        self.world.apply(vm("desk", "T4-8Q"))
        for name in NAMES:
            self.change(name, cordoned=False)
        self.slow = SlowHosts(self.world.hosts, self._clock, dict.fromkeys(NAMES, LOOK_S), {HUNG})
        lanes = SerialWorkers(self._clock)
        self.engine: Engine = replace(
            self.world.engine, hosts=self.slow, lanes=lanes, clock=self._clock
        )
        self._began = self._clock.time

    def change(self, name: str, **fields: object) -> None:
        record = self.world.ledger.host(name)
        self.world.ledger.update_host(replace(record, **fields))  # type: ignore[arg-type]

    def close_all_but(self, *names: str) -> None:
        """No VM may go anywhere else."""
        for name in NAMES:
            self.change(name, cordoned=name not in names)

    @property
    def took(self) -> float:
        """Seconds until now."""
        return self._clock.time - self._began


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.world.close()


def cut(**fields: object) -> LayoutSpec:
    rule = LayoutRule(layout=GpuLayout(vfs=VFS_MAX), models=("A2",))
    return LayoutSpec(name="cut", rules=(rule,), **fields)  # type: ignore[arg-type]


def test_a_layout_looks_at_its_own_hosts_alone(bench: Bench) -> None:
    bench.change("h3", labels={"kind": "vdi"})
    wanted = [cut(hosts=("h2",)), cut(host_labels={"kind": "vdi"})]
    assert {gpu.host for gpu in bench.engine.layout_plan(wanted).gpus} == {"h2", "h3"}
    assert bench.slow.asked == ["h2", "h3"]
    bench.engine.layout_apply(wanted)[1].raise_for_failure()
    bench.slow.asked.clear()
    assert bench.engine.layout_plan(None).gpus == ()
    assert bench.slow.asked == ["h2", "h3"]


def test_a_layout_that_is_for_no_host_looks_at_none(bench: Bench) -> None:
    assert bench.engine.layout_plan([cut(host_labels={"kind": "none"})]).gpus == ()
    assert bench.engine.layout_plan(None).gpus == ()
    assert bench.slow.asked == []


def test_a_layout_waits_for_its_host_that_hangs(bench: Bench) -> None:
    [warning] = bench.engine.layout_plan([cut(hosts=(HUNG,))]).warnings
    assert "did not answer within 26 s" in warning
    assert bench.took == pytest.approx(DEADLINE_S)


def test_a_drain_leaves_out_a_host_that_hangs(bench: Bench) -> None:
    [choice] = bench.engine.drain_plan(DrainRequest(host="h1"))
    assert choice.move is not None
    assert bench.took < LOOK_S + WAIT_LIMITS.least_s + 3 * LOOK_S
    drained = bench.engine.drain(DrainRequest(host="h1"))
    drained.outcome.raise_for_failure()
    assert bench.world.ledger.vm("desk").host not in {"h1", HUNG}
    assert bench.took < DEADLINE_S


def test_a_drain_to_one_host_looks_at_no_third(bench: Bench) -> None:
    bench.engine.drain(DrainRequest(host="h1", to=("h2",))).outcome.raise_for_failure()
    assert set(bench.slow.asked) == {"h1", "h2"}


def test_a_drain_waits_for_all_before_it_says_that_a_vm_stays(bench: Bench) -> None:
    bench.close_all_but("h1", HUNG)
    [choice] = bench.engine.drain_plan(DrainRequest(host="h1"))
    assert choice.move is None
    assert bench.took > DEADLINE_S
    bench.slow.hung.clear()
    bench.slow.takes_s = {**bench.slow.takes_s, HUNG: 9.0}
    [drained] = bench.engine.drain(DrainRequest(host="h1")).outcome.vms
    assert (drained.vm, bench.world.ledger.vm("desk").host) == ("desk", HUNG)


def test_an_evacuation_leaves_out_a_host_that_hangs(bench: Bench) -> None:
    bench.slow.hung.add("h1")
    [remade] = bench.engine.evacuation_plan("h1").remade
    assert remade.placed.host not in {"h1", HUNG}
    assert "h1" not in bench.slow.asked
    assert bench.took == pytest.approx(WAIT_LIMITS.least_s)


def test_an_evacuation_waits_for_all_before_it_says_that_a_vm_stays(bench: Bench) -> None:
    bench.close_all_but(HUNG)
    [stays] = bench.engine.evacuation_plan("h1").staying
    assert bench.took == pytest.approx(DEADLINE_S)
    assert "it fits nowhere" in stays.why
    bench.slow.hung.clear()
    bench.slow.takes_s = {**bench.slow.takes_s, HUNG: 9.0}
    [remade] = bench.engine.evacuation_plan("h1").remade
    assert remade.placed.host == HUNG
