"""What `serve` does where a power budget runs out or a GPU is hot: over simulated hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.poolsim import TwoHosts, spec
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind
from vgpumgr.engine.controller.cycle_threads import CycleThread
from vgpumgr.engine.controller.power_task import PowerPolicy, PowerTask
from vgpumgr.engine.workers.serial_workers import SerialWorkers
from vgpumgr.health.health_policy import HealthMode, HealthPolicy, parse_actions
from vgpumgr.model.gpu import GpuState, PowerFacts
from vgpumgr.model.host_sample import FleetSample
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.power import MeterReading, PowerBudget, PowerCap
from vgpumgr.model.vm import Terms
from vgpumgr.telemetry.figure_sampler import FigureSampler

FIRST, SECOND = "0000:41:00.0", "0000:43:00.0"

pytestmark = pytest.mark.thorough


class Rack:
    """A host with two A40, a spot VM on one of them, and the task of one controller."""

    def __init__(self, folder: Path) -> None:
        self.world = SimWorld(folder, host("A40", "A40"))
        self.world.cut(GpuLayout(vfs=VFS_MAX))
        self.world.apply(vm("spot", "A40-48Q", queue=Terms(spot=True)), vm("desk", "A40-48Q"))
        self.events: list[ControllerEvent] = []
        self.at = 0.0
        self.meters: tuple[MeterReading, ...] = ()
        self.task = self.controller(HealthMode.ACT)

    def controller(self, mode: HealthMode, actions: str = "") -> PowerTask:
        policy = PowerPolicy(
            mode=mode, health=HealthPolicy(mode=mode, actions=parse_actions(actions))
        )
        return PowerTask(self.world.engine, self.figures, policy, self.events.append)

    def figures(self) -> FleetSample:
        context = self.world.engine
        sampler = FigureSampler(context.hosts, SerialWorkers(), context.clock.now)
        found = sampler.read(context.ledger.hosts())
        self.at += 15
        return FleetSample(
            at=self.at, interval_s=15.0, hosts=tuple(found.values()), meters=self.meters
        )

    def cycle(self, count: int = 1) -> None:
        for _ in range(count):
            self.task.take(CycleThread("power:", self.world.engine.clock))
        self.world.engine.refresh()

    def budget(self, watts: int) -> None:
        self.world.ledger.set_power_budgets([PowerBudget(name="pdu", watts=watts, hosts=("h1",))])

    def inject(self, *words: str) -> None:
        self.world.sim.inject("h1", words)

    def power(self, device: str) -> PowerFacts:
        found = [gpu.facts.power for gpu in self.world.ledger.gpus() if gpu.facts.device == device]
        assert found[0] is not None
        return found[0]

    def gpu_of(self, name: str) -> str:
        [found] = [
            gpu.facts.device
            for gpu in self.world.ledger.gpus()
            for held in self.world.ledger.allocations()
            if held.gpu == gpu.id and held.vm == name
        ]
        return found

    def told(self) -> list[str]:
        return [each.text for each in self.events if each.kind is EventKind.POWER]


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    found = Rack(tmp_path)
    yield found
    found.world.close()


def busy(rack: Rack) -> None:
    for device in (FIRST, SECOND):
        rack.inject("gpu", device, "busy")


def test_over_the_budget_the_spot_gpu_is_held_at_once_and_every_act_is_in_the_trail(
    rack: Rack,
) -> None:
    busy(rack)
    rack.budget(500)
    rack.cycle()
    spot, desk = rack.power(rack.gpu_of("spot")), rack.power(rack.gpu_of("desk"))
    assert (spot.limit_w, desk.limit_w) == (100, 300)
    [cap] = rack.world.ledger.power_caps()
    assert (cap.limit_w, cap.why, cap.host) == (100, "pdu", "h1")
    assert [each.detail for each in rack.world.ledger.audit(event="power.capped")] == ["pdu: 100 W"]
    assert rack.told() == [f"A40 {rack.gpu_of('spot')} on h1 is held to 100 W for pdu"]


def test_in_the_band_clocks_are_locked_before_limits(rack: Rack) -> None:
    busy(rack)
    rack.budget(586)
    rack.cycle()
    spot = rack.power(rack.gpu_of("spot"))
    assert (spot.limit_w, bool(spot.locked_clocks)) == (300, True)


def test_a_clock_that_was_put_back_does_not_stop_it(rack: Rack) -> None:
    rack.at = 7200.0
    rack.cycle()
    rack.at = 3600.0
    busy(rack)
    rack.budget(500)
    rack.cycle()
    assert rack.power(rack.gpu_of("spot")).limit_w == 100


def test_a_dry_run_tells_once_and_touches_nothing(rack: Rack) -> None:
    rack.task = rack.controller(HealthMode.DRY_RUN)
    busy(rack)
    rack.budget(500)
    rack.cycle(3)
    assert rack.power(rack.gpu_of("spot")).limit_w == 300
    assert rack.world.ledger.power_caps() == ()
    assert rack.told() == [
        f"A40 {rack.gpu_of('spot')} on h1 would be held to 100 W for pdu: power_mode is dry-run"
    ]


def test_what_is_calm_again_is_lifted_and_forgotten(rack: Rack) -> None:
    busy(rack)
    rack.budget(500)
    rack.cycle()
    rack.inject("clear")
    for device in (FIRST, SECOND):
        rack.inject("gpu", device, "calm")
    rack.cycle(12)
    assert {rack.power(each).limit_w for each in (FIRST, SECOND)} == {300}
    assert rack.world.ledger.power_caps() == ()
    assert len(rack.world.ledger.audit(event="power.uncapped")) == 1


def test_a_cap_is_no_drift_from_a_layout_and_a_reboot_does_not_end_it(rack: Rack) -> None:
    rack.world.cut(GpuLayout(power_limit=280))
    busy(rack)
    rack.budget(480)
    rack.cycle()
    device = rack.gpu_of("spot")
    assert rack.power(device).limit_w == 100
    assert not rack.world.engine.layout_plan(None).gpus
    rack.inject("reboot")
    rack.world.engine.refresh()
    assert any(
        "wanted 100 W" in line
        for gpu in rack.world.engine.layout_plan(None).gpus
        for line in gpu.differences
    )


def test_another_controller_goes_on_with_the_caps_that_are_there(rack: Rack) -> None:
    busy(rack)
    rack.budget(500)
    rack.cycle()
    rack.task = rack.controller(HealthMode.ACT)
    rack.cycle(2)
    assert [each.limit_w for each in rack.world.ledger.power_caps()] == [100]
    assert rack.power(rack.gpu_of("spot")).limit_w == 100


def test_a_host_that_tells_nothing_counts_with_its_limits_and_lifts_nothing(rack: Rack) -> None:
    busy(rack)
    rack.budget(500)
    rack.cycle()
    rack.inject("unreachable")
    rack.cycle(6)
    assert [each.limit_w for each in rack.world.ledger.power_caps()] == [100]


def test_at_85_degrees_the_first_reading_acts_and_the_second_limits(rack: Rack) -> None:
    rack.inject("gpu", FIRST, "hot")
    rack.cycle()
    assert rack.power(FIRST).locked_clocks
    rack.cycle()
    assert rack.power(FIRST).limit_w == 100
    assert rack.power(SECOND).limit_w == 300


def test_another_controller_holds_a_hot_gpu_no_tighter(rack: Rack) -> None:
    rack.inject("gpu", FIRST, "hot")
    rack.cycle()
    [before] = rack.world.ledger.power_caps()
    rack.task = rack.controller(HealthMode.ACT)
    rack.cycle()
    [after] = rack.world.ledger.power_caps()
    assert (before.clocks, after.why, after.limit_w) == (after.clocks, "temperature", 100)
    assert rack.power(FIRST).locked_clocks == before.clocks


def test_a_gpu_that_stays_hot_takes_no_vm_and_is_drained_only_by_the_policy(rack: Rack) -> None:
    rack.inject("gpu", FIRST, "hot")
    rack.cycle(5)
    gpus = {gpu.facts.device: gpu for gpu in rack.world.ledger.gpus()}
    assert gpus[FIRST].state is GpuState.QUARANTINED
    assert gpus[SECOND].state is GpuState.HEALTHY
    assert len(rack.world.ledger.vms()) == 2
    assert PowerPolicy(mode=HealthMode.ACT).drains is None


def test_a_cap_by_hand_is_not_ours_to_lift(rack: Rack) -> None:
    rack.budget(5000)
    device = rack.gpu_of("desk")
    context = rack.world.engine
    helper = context.hosts.open(context.ledger.host("h1")).helper
    helper.call("power_limit_set", {"gpu": device, "watts": 150})
    rack.cycle(6)
    assert rack.power(device).limit_w == 150


def test_a_cap_of_a_gpu_that_left_is_forgotten(rack: Rack) -> None:
    rack.budget(5000)
    rack.world.ledger.set_power_cap(PowerCap(gpu="gone", host="h9", limit_w=1, why="pdu"))
    rack.cycle()
    assert rack.world.ledger.power_caps() == ()


def test_a_meter_that_reads_more_counts_and_one_that_reads_nonsense_does_not(rack: Rack) -> None:
    busy(rack)
    rack.budget(1000)
    rack.meters = (MeterReading(budget="pdu", at=0.0, watts=2500.0),)
    rack.cycle()
    assert rack.world.ledger.power_caps() == ()
    rack.meters = (MeterReading(budget="pdu", at=0.0, watts=1100.0),)
    rack.cycle()
    assert [each.why for each in rack.world.ledger.power_caps()] == ["pdu"]


def test_a_gpu_that_stays_hot_is_drained_where_the_policy_says_so(rack: Rack) -> None:
    rack.task = rack.controller(HealthMode.ACT, "check=evacuate")
    rack.inject("gpu", FIRST, "hot")
    rack.cycle(6)
    held = {each.gpu for each in rack.world.ledger.allocations()}
    hot = next(gpu.id for gpu in rack.world.ledger.gpus() if gpu.facts.device == FIRST)
    assert hot in held, "there is no other host: its VM stays, and is not stopped for nothing"
    assert all(vm.running for vm in rack.world.ledger.vms())


def test_a_drain_of_a_hot_gpu_is_told_with_its_vms_where_nothing_may_be_done(rack: Rack) -> None:
    for mode, health, why in (
        (HealthMode.DRY_RUN, HealthMode.ACT, "power_mode is dry-run"),
        (HealthMode.ACT, HealthMode.DRY_RUN, "health_mode is dry-run"),
    ):
        rack.events.clear()
        policy = PowerPolicy(
            mode=mode, health=HealthPolicy(mode=health, actions=parse_actions("check=drain"))
        )
        rack.task = PowerTask(rack.world.engine, rack.figures, policy, rack.events.append)
        rack.inject("gpu", FIRST, "hot")
        rack.cycle(7)
        name = "spot" if rack.gpu_of("spot") == FIRST else "desk"
        would = f"A40 {FIRST} on h1 would be drained ({name}): it stays hot, but {why}"
        assert rack.told().count(would) == 1
    assert {each.host for each in rack.world.ledger.vms()} == {"h1"}


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[TwoHosts]:
    found = TwoHosts(tmp_path, spec(least=2, spare=0))
    yield found
    found.sim.world.close()


def heated(desks: TwoHosts, health: HealthMode) -> list[str]:
    """What is told while ada's GPU stays hot, with a policy that drains it."""
    events: list[ControllerEvent] = []
    context, at = desks.sim.engine, [0.0]

    def figures() -> FleetSample:
        found = FigureSampler(context.hosts, SerialWorkers(), context.clock.now).read(
            context.ledger.hosts()
        )
        at[0] += 15
        return FleetSample(at=at[0], interval_s=15.0, hosts=tuple(found.values()))

    actions = parse_actions("check=drain")
    policy = PowerPolicy(mode=HealthMode.ACT, health=HealthPolicy(mode=health, actions=actions))
    task = PowerTask(context, figures, policy, events.append)
    [gpu] = [each for each in context.ledger.gpus() if each.host == "h1"]
    desks.sim.world.sim.inject("h1", ["gpu", gpu.facts.device, "hot"])
    for _ in range(8):
        task.take(CycleThread("power:", context.clock))
    return [each.text for each in events]


def test_who_is_at_work_on_a_hot_gpu_is_named(desks: TwoHosts) -> None:
    [told] = [each for each in heated(desks, HealthMode.DRY_RUN) if "would be drained" in each]
    assert "(cad-01, cad-02); at work: ada on cad-01: it stays hot" in told


def test_vms_leave_a_hot_gpu_while_they_run_and_their_users_keep_their_sessions(
    desks: TwoHosts,
) -> None:
    heated(desks, HealthMode.ACT)
    rows = desks.sim.rows()
    assert {vm.host for vm in desks.sim.ledger.vms()} == {"h2"}
    session = rows["cad-01"].desktop.session
    assert session is not None and session.user == "ada"
