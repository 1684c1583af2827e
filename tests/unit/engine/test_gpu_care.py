"""What `serve` does about GPUs: told once, dry by default, never a reset of what is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import NEW, SimWorld, host, vm
from vgpumgr.engine.controller.controller import Controller
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_schedule import ProbePauses
from vgpumgr.engine.controller.cycle_threads import SerialCycleRunner
from vgpumgr.health.health_policy import HealthMode, HealthPolicy, parse_actions
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.gpu import GpuRecord, GpuState
from vgpumgr.model.health import HealthState
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.sim.injection import inject

FIRST = "0000:41:00.0"


class Care:
    """A world of two hosts with two A100 each, and a controller with a policy."""

    def __init__(self, folder: Path) -> None:
        boards = ("A100-PCIE-40GB", "A100-PCIE-40GB")
        hosts = [host(*boards, versions=NEW, name=name) for name in ("h1", "h2")]
        self.world = SimWorld(folder, *hosts)
        for name in ("h1", "h2"):
            record = self.world.ledger.host(name)
            moved = replace(record, migration=MigrationAddress(address=name))
            self.world.ledger.update_host(moved)
            self.world.cut(GpuLayout(vfs=VFS_MAX), name)
        self.events: list[ControllerEvent] = []

    def controller(self, actions: str = "", mode: HealthMode = HealthMode.ACT) -> Controller:
        context = self.world.engine
        return Controller(
            context,
            SerialCycleRunner(context.clock),
            ProbePauses(30.0),
            emit=self.events.append,
            health=HealthPolicy(mode=mode, actions=parse_actions(actions)),
        )

    def told(self, kind: EventKind = EventKind.GPU_HEALTH) -> list[str]:
        return [each.text for each in self.events if each.kind is kind]

    def fault(self, *words: str) -> None:
        inject(self.world.sim.host("h1"), ["gpu", FIRST, *words])

    @property
    def gpu(self) -> GpuRecord:
        found = self.world.ledger.gpus("h1")
        return next(each for each in found if each.facts.device == FIRST)

    def vms_on_it(self) -> list[str]:
        found = self.world.ledger.allocations()
        return sorted(each.vm for each in found if each.gpu == self.gpu.id)

    def place(self, *names: str) -> None:
        """VMs on that GPU."""
        for gpu in self.world.ledger.gpus():
            if gpu.id != self.gpu.id:
                self.world.ledger.quarantine(gpu.id, "not for this one")
        self.world.apply(*(vm(name, "A100-10C") for name in names))
        for gpu in self.world.ledger.gpus():
            if gpu.id != self.gpu.id:
                self.world.ledger.lift(gpu.id)
        assert self.vms_on_it() == list(names)


@pytest.fixture
def care(tmp_path: Path) -> Iterator[Care]:
    found = Care(tmp_path)
    yield found
    found.world.close()


NAME = f"A100-PCIE-40GB {FIRST} on h1"


def test_each_change_is_told_once_and_its_end(care: Care) -> None:
    serve = care.controller("reset=tell reset-when-idle=tell")
    serve.once()
    assert care.told() == []
    care.fault("xid", "140")
    serve.once()
    serve.once()
    assert care.told() == [
        f"{NAME} is quarantined: the driver asks for a GPU reset (asks for: reset)"
    ]
    inject(care.world.sim.host("h1"), ["clear"])
    care.world.engine.refresh()
    care.world.engine.lift(care.gpu.id)
    serve.once()
    assert care.told()[1:] == [f"{NAME} is healthy"]


def test_a_dry_run_says_what_would_be_done_and_does_nothing(care: Care) -> None:
    serve = care.controller("reset=drain+reset", HealthMode.DRY_RUN)
    care.place("a")
    care.fault("xid", "140")
    serve.once()
    serve.once()
    assert care.told()[1:] == [f"{NAME} would be drained (a): health_mode is dry-run"]
    assert care.vms_on_it() == ["a"]
    assert not care.gpu.health.state.takes_vms


def test_by_default_nothing_is_done(care: Care) -> None:
    care.fault("xid", "140")
    context = care.world.engine
    Controller(
        context, SerialCycleRunner(context.clock), ProbePauses(30.0), emit=care.events.append
    ).once()
    assert care.told()[1:] == [f"{NAME} would be reset: health_mode is dry-run"]
    assert not care.gpu.health.state.takes_vms


def test_an_empty_gpu_is_reset_and_takes_vms_again(care: Care) -> None:
    care.fault("xid", "140")
    care.controller().once()
    assert f"{NAME} was reset" in care.told()
    assert (care.gpu.condition, care.gpu.state) == (HealthState.HEALTHY, GpuState.HEALTHY)


def test_a_used_gpu_waits_until_its_vm_is_gone(care: Care) -> None:
    serve = care.controller("reset=reset")
    care.place("a")
    care.fault("xid", "140")
    serve.once()
    assert care.gpu.condition is HealthState.QUARANTINED
    assert care.vms_on_it() == ["a"]
    care.world.delete("a")
    serve.once()
    assert care.gpu.condition is HealthState.HEALTHY


def test_its_vms_are_moved_while_they_run_and_then_it_is_reset(care: Care) -> None:
    serve = care.controller("reset=drain+reset")
    care.place("a", "b")
    care.fault("xid", "140")
    for _ in range(4):
        serve.once()
    where = {each.name: each.host for each in care.world.ledger.vms()}
    assert where == {"a": "h2", "b": "h2"}
    assert care.vms_on_it() == []
    assert care.gpu.condition is HealthState.HEALTHY


def test_a_vm_of_a_lost_gpu_is_evacuated_where_the_policy_says_so(care: Care) -> None:
    serve = care.controller("lost=evacuate")
    care.place("a")
    care.fault("lost")
    for _ in range(3):
        serve.once()
    [moved] = care.world.ledger.vms()
    assert (moved.host, care.vms_on_it()) == ("h2", [])


def test_a_board_to_be_replaced_is_drained_and_stays_out(care: Care) -> None:
    serve = care.controller()
    care.place("a")
    care.fault("remap-failed")
    for _ in range(3):
        serve.once()
    assert care.vms_on_it() == []
    assert care.gpu.condition is HealthState.QUARANTINED


def test_a_cordon_stays_until_a_person_lifts_it(care: Care) -> None:
    serve = care.controller("reset=cordon")
    care.fault("xid", "140")
    serve.once()
    assert care.gpu.state is GpuState.QUARANTINED
    inject(care.world.sim.host("h1"), ["reboot"])
    for _ in range(3):
        serve.once()
    assert care.gpu.condition is HealthState.HEALTHY
    assert care.gpu.state is GpuState.QUARANTINED
    care.world.engine.lift(care.gpu.id)
    assert care.gpu.state is GpuState.HEALTHY


def test_what_a_person_has_set_aside_is_left_alone(care: Care) -> None:
    care.world.ledger.quarantine(care.gpu.id, "I am looking at it")
    care.fault("xid", "140")
    care.controller().once()
    assert care.gpu.condition is HealthState.QUARANTINED
    assert care.gpu.state_why == "I am looking at it"


def test_a_fault_of_most_of_the_fleet_is_a_persons_to_judge(care: Care) -> None:
    for name in ("h1", "h2"):
        for gpu in care.world.ledger.gpus(name):
            inject(care.world.sim.host(name), ["gpu", gpu.facts.device, "xid", "140"])
    care.world.engine.refresh()
    care.controller().once()
    assert any("4 of 4 GPUs are out: look at them" in each for each in care.told())
    assert all(not each.health.state.takes_vms for each in care.world.ledger.gpus())


def test_a_reset_that_is_refused_is_tried_again_later(care: Care) -> None:
    serve = care.controller()
    care.fault("xid", "140")
    care.fault("client", "dcgm")
    serve.once()
    assert any("is in use" in each for each in care.told(EventKind.TASK_ENDED))
    assert "its reset failed" in care.gpu.state_why
    inject(care.world.sim.host("h1"), ["clear"])
    care.fault("recovery", "1")
    again = care.controller()
    again.once()
    assert (care.gpu.condition, care.gpu.state) == (HealthState.HEALTHY, GpuState.HEALTHY)
