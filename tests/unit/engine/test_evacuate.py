"""A host that is lost: its VMs are made anew elsewhere, and only when it is proven off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fencing import SimFencing
from tests.property.test_engine_kill_points import Killed, Mortal
from tests.serving import Served
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.hosts import host_return
from vgpumgr.engine.hosts.evacuation_plan import make_plan
from vgpumgr.engine.steps.evacuation_steps import LeaveDomain
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict, NotPermitted, VgpumgrError
from vgpumgr.model.host import Fence
from vgpumgr.model.vm import VmSpec, VmState
from vgpumgr.model.vm_devices import DiskSpec

SHARED = (DiskSpec(pool="nas", size_bytes=1 << 20),)
OWN = (DiskSpec(size_bytes=1 << 20),)
POOLS = {"pools": ("default", "nas"), "shared_pools": ("nas",)}
FENCE = Fence(off=("/bin/off",), status=("/bin/status",))


class Bench:
    """h1 with VMs, h2 alike and empty; h1 can be fenced."""

    def __init__(self, folder: Path) -> None:
        self.world = SimWorld(folder, host("T4", **POOLS), host("T4", name="h2", **POOLS))
        self.fencing = SimFencing(self.world.sim)
        self.world.engine = replace(self.world.engine, fencing=self.fencing)
        self.change("h1", fence=FENCE)

    def change(self, name: str, **fields: object) -> None:
        record = self.world.ledger.host(name)
        self.world.ledger.update_host(replace(record, **fields))  # type: ignore[arg-type]

    def make(self, *vms: VmSpec) -> None:
        """On h1."""
        self.change("h2", cordoned=True)
        self.world.apply(*vms)
        self.change("h2", cordoned=False)

    def lose(self) -> None:
        """It answers no more; nobody knows whether its VMs run."""
        self.world.sim.inject("h1", ["unreachable"])

    def state(self, name: str, domain: str = "desk") -> DomainState | None:
        """Looked at past everything that keeps vgpumgr from it."""
        found = self.world.sim.host(name).domains.look(domain)
        return found.state if found else None

    def back(self) -> None:
        """It is switched on again, and reachable."""
        self.world.sim.inject("h1", ["clear"])
        self.world.sim.inject("h1", ["on"])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.world.close()


def test_a_vm_on_shared_storage_is_made_anew(bench: Bench) -> None:
    bench.make(vm("desk", "T4-8Q", disks=SHARED))
    before, [old] = bench.world.ledger.vm("desk"), bench.world.ledger.allocations()
    bench.lose()
    plan, outcome = bench.world.engine.evacuate("h1")
    outcome.raise_for_failure()
    assert plan.staying == ()
    after, [new] = bench.world.ledger.vm("desk"), bench.world.ledger.allocations()
    assert (after.id, after.host, after.state) == (before.id, "h2", VmState.ACTIVE)
    assert (new.host, new.state, new.device != old.device) == ("h2", AllocationState.ACTIVE, True)
    assert bench.state("h2") is DomainState.RUNNING
    [operation] = [each for each in bench.world.ledger.operations() if each.kind == "host evacuate"]
    assert operation.summary == "h1 is off: the switch says 'off'"
    lost = bench.world.ledger.host("h1")
    assert (lost.cordoned, lost.maintenance, lost.evacuated) == (True, True, True)


def test_without_proof_nothing_is_changed(bench: Bench) -> None:
    bench.make(vm("desk", "T4-8Q", disks=SHARED))
    before = bench.world.ledger.vms(), bench.world.ledger.operations()
    bench.lose()
    bench.fencing.broken = True
    with pytest.raises(NotPermitted):
        bench.world.engine.evacuate("h1")
    assert (bench.world.ledger.vms(), bench.world.ledger.operations()) == before
    assert not bench.world.ledger.host("h1").maintenance
    assert bench.state("h1") is DomainState.RUNNING
    assert bench.state("h2") is None


def test_a_host_that_answers_is_not_lost(bench: Bench) -> None:
    bench.make(vm("desk", "T4-8Q", disks=SHARED))
    with pytest.raises(Conflict, match="answers: it is not lost") as refused:
        bench.world.engine.evacuate("h1")
    assert "host drain h1" in refused.value.next
    assert bench.state("h1") is DomainState.RUNNING


def test_who_says_that_an_answering_host_is_off_is_wrong(bench: Bench) -> None:
    bench.make(vm("desk", "T4-8Q", disks=SHARED))

    class Believer(SimFencing):
        def proof(self, host: object) -> object:  # type: ignore[override]
            return "somebody says so"

    engine = replace(bench.world.engine, fencing=Believer(bench.world.sim))  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="it is not off"):
        engine.evacuate("h1")


def test_what_cannot_go_stays_with_what_it_holds(bench: Bench) -> None:
    bench.make(
        vm("shared", "T4-4Q", disks=SHARED),
        vm("own", "T4-4Q", disks=OWN),
        vm("bare", "T4-4Q"),
        vm("picky", "T4-4Q", disks=SHARED),
    )
    picky = bench.world.ledger.vm("picky").spec
    only = replace(picky, affinity=replace(picky.affinity, hosts=("h1",)))
    bench.world.apply(only)
    held = {each.vm: each for each in bench.world.ledger.allocations()}
    bench.lose()
    plan, outcome = bench.world.engine.evacuate("h1")
    outcome.raise_for_failure()
    assert {each.vm.name: each.placed.host for each in plan.remade} == {
        "shared": "h2",
        "bare": "h2",
    }
    why = {each.vm.name: each.why for each in plan.staying}
    assert "on the host's own disks (a dir pool)" in why["own"]
    assert "it fits nowhere" in why["picky"]
    now = {each.vm: each for each in bench.world.ledger.allocations()}
    assert (now["own"], now["picky"]) == (held["own"], held["picky"])
    assert bench.world.ledger.vm("own").host == "h1"


def test_an_adopted_vm_stays(bench: Bench) -> None:
    bench.make(vm("desk", "T4-8Q"))
    view = bench.world.engine.view()
    adopted = replace(view, vms=tuple(replace(each, definition="<domain/>") for each in view.vms))
    lost, place = bench.world.ledger.host("h1"), bench.world.engine.place
    plan = make_plan(adopted, lost, {}, place, will_not_boot=True)
    assert (plan.remade, [each.vm.name for each in plan.staying]) == ((), ["desk"])
    assert "adopted" in plan.staying[0].why
    assert make_plan(view, lost, {}, place, will_not_boot=True).remade


def test_a_vm_that_was_off_stays_off(bench: Bench) -> None:
    bench.make(vm("desk", "T4-8Q", disks=SHARED))
    bench.world.engine.stop_vms(["desk"], force=True, timeout_s=1.0).raise_for_failure()
    bench.lose()
    bench.world.engine.evacuate("h1")[1].raise_for_failure()
    assert bench.world.ledger.vm("desk").host == "h2"
    assert bench.state("h2") is DomainState.SHUTOFF


def test_a_full_fleet_keeps_what_has_no_room(bench: Bench) -> None:
    bench.make(*(vm(f"d{n}", "T4-8Q", disks=SHARED) for n in range(2)))
    bench.change("h1", cordoned=True)
    bench.world.apply(vm("there", "T4-8Q"))
    bench.lose()
    plan, outcome = bench.world.engine.evacuate("h1")
    outcome.raise_for_failure()
    assert (len(plan.remade), len(plan.staying)) == (1, 1)
    assert "fits nowhere" in plan.staying[0].why
    assert len(bench.world.ledger.allocations()) == 3


class TestAutostart:
    """libvirt would start the old copy when the machine boots."""

    def test_a_fenced_host_has_none(self, bench: Bench) -> None:
        bench.make(vm("desk", "T4-8Q", disks=SHARED, autostart=True))
        assert not bench.world.facts().domains[0].autostart
        assert bench.world.engine.drift(["h1"]).drifts == ()

    def test_a_fence_clears_what_was_set(self, bench: Bench) -> None:
        bench.change("h1", fence=None)
        bench.make(vm("desk", "T4-8Q", disks=SHARED, autostart=True))
        assert bench.world.facts().domains[0].autostart
        bench.world.engine.fence("h1", FENCE).raise_for_failure()
        assert not bench.world.facts().domains[0].autostart
        bench.world.engine.fence("h1", None).raise_for_failure()
        assert bench.world.facts().domains[0].autostart
        assert bench.world.ledger.host("h1").fence is None

    def test_one_that_libvirt_starts_stays_unless_the_machine_does_not_boot(
        self, bench: Bench
    ) -> None:
        bench.change("h1", fence=None)
        bench.make(vm("desk", "T4-8Q", disks=SHARED, autostart=True))
        bench.world.engine.refresh()
        bench.lose()
        plan, _ = bench.world.engine.evacuate("h1")
        assert "it would run twice" in plan.staying[0].why
        assert "--confirm-off" in plan.staying[0].next
        assert bench.state("h2") is None
        plan, outcome = bench.world.engine.evacuate("h1", will_not_boot=True)
        outcome.raise_for_failure()
        assert (len(plan.remade), bench.state("h2")) == (1, DomainState.RUNNING)

    def test_a_flag_set_by_hand_counts(self, bench: Bench) -> None:
        bench.make(vm("desk", "T4-8Q", disks=SHARED))
        h1 = bench.world.hosts.open(bench.world.ledger.host("h1"))
        h1.domains.set_autostart("desk", on=True)
        bench.world.engine.refresh()
        bench.lose()
        plan, _ = bench.world.engine.evacuate("h1")
        assert "it would run twice" in plan.staying[0].why


class TestReturn:
    """What was left there is ours, of an older generation, and runs nowhere."""

    def evacuated(self, bench: Bench) -> None:
        bench.make(vm("desk", "T4-8Q", disks=SHARED), vm("own", "T4-8Q", disks=OWN))
        bench.lose()
        bench.world.engine.evacuate("h1")[1].raise_for_failure()
        bench.back()

    def test_it_is_taken_away_and_no_more(self, bench: Bench) -> None:
        self.evacuated(bench)
        assert bench.state("h1") is DomainState.SHUTOFF
        host_return.remove_remains(bench.world.engine, "h1").raise_for_failure()
        assert bench.state("h1") is None
        facts = bench.world.facts()
        own = next(each for each in bench.world.ledger.allocations() if each.vm == "own")
        assert {claim.allocation for claim in facts.claims} == {own.id}
        assert [domain.name for domain in facts.domains] == ["own"]
        record = bench.world.ledger.host("h1")
        assert (record.evacuated, record.maintenance) == (False, True)
        assert bench.state("h2") is DomainState.RUNNING
        shared = bench.world.ledger.vm("desk").volumes[0]
        h2 = bench.world.hosts.open(bench.world.ledger.host("h2"))
        assert h2.storage.look(*shared) is not None

    def test_serve_does_so_when_it_answers_and_is_quiet_before(self, bench: Bench) -> None:
        bench.make(vm("desk", "T4-8Q", disks=SHARED))
        bench.lose()
        bench.world.engine.evacuate("h1")[1].raise_for_failure()
        served = Served(bench.world.engine)
        status = served.controller.once()
        assert {each.name: each.state for each in status.hosts}["h1"] == "maintenance"
        assert not [event for event in served.events if event.host == "h1"]
        bench.back()
        served.controller.once()
        assert bench.state("h1") is None
        assert (bench.world.facts().claims, bench.world.ledger.host("h1").evacuated) == ((), False)
        assert bench.world.ledger.host("h1").maintenance

    def test_one_that_runs_there_is_left_alone_and_named(self, bench: Bench) -> None:
        self.evacuated(bench)
        h1 = bench.world.hosts.open(bench.world.ledger.host("h1"))
        h1.helper.call("restore", {})
        h1.domains.start("desk")
        with pytest.raises(Conflict, match="desk is running on h1"):
            host_return.remove_remains(bench.world.engine, "h1")
        assert bench.state("h1") is DomainState.RUNNING
        kinds = {str(each.kind) for each in bench.world.engine.drift(["h1"]).drifts}
        assert "domain-elsewhere" in kinds
        assert bench.world.ledger.host("h1").evacuated
        with pytest.raises(Conflict):
            bench.world.engine.leave_maintenance("h1")
        assert bench.world.ledger.host("h1").maintenance

    def test_one_that_is_started_meanwhile_is_not_undefined(self, bench: Bench) -> None:
        self.evacuated(bench)
        h1 = bench.world.hosts.open(bench.world.ledger.host("h1"))
        h1.helper.call("restore", {})
        h1.domains.start("desk")
        step = LeaveDomain(name="desk", vm_id=bench.world.ledger.vm("desk").id)
        with pytest.raises(Conflict, match="from where it was evacuated"):
            step.act(h1, bench.world.engine.clock)
        assert bench.state("h1") is DomainState.RUNNING

    def test_a_vm_that_was_deleted_since_leaves_nothing(self, bench: Bench) -> None:
        self.evacuated(bench)
        bench.world.delete("desk")
        host_return.remove_remains(bench.world.engine, "h1").raise_for_failure()
        assert bench.state("h1") is None
        assert not bench.world.ledger.host("h1").evacuated

    def test_leaving_maintenance_tidies_and_the_host_takes_vms(self, bench: Bench) -> None:
        self.evacuated(bench)
        bench.world.engine.leave_maintenance("h1")
        record = bench.world.ledger.host("h1")
        assert (record.cordoned, record.maintenance, record.evacuated) == (False, False, False)
        bench.world.engine.start(["own"]).raise_for_failure()
        bench.change("h2", cordoned=True)
        bench.world.apply(vm("new", "T4-8Q"))
        assert bench.state("h1", "new") is DomainState.RUNNING

    def test_nothing_is_started_there_before(self, bench: Bench) -> None:
        self.evacuated(bench)
        with pytest.raises(Conflict, match="h1 is in maintenance"):
            bench.world.engine.start(["own"])
        bench.world.engine.refresh(["h1"])
        bench.world.apply(bench.world.ledger.vm("own").spec)
        assert bench.state("h1", "own") is DomainState.SHUTOFF


class TestGoingOn:
    """The proof is of the moment: whoever goes on with an evacuation has seen it himself."""

    def cut(self, bench: Bench, at: int = 2, *, after: bool = True) -> str:
        """The process dies before the first step is done, or at another write."""
        bench.make(vm("desk", "T4-8Q", disks=SHARED))
        bench.lose()
        mortal = Mortal(bench.world.ledger, at, after=after)
        with pytest.raises(Killed):
            replace(bench.world.engine, ledger=mortal).evacuate("h1")  # type: ignore[arg-type]
        bench.world.restart()
        [operation] = bench.world.ledger.operations(open_only=True)
        return operation.id

    def test_it_waits_until_the_host_is_proven_off_again(self, bench: Bench) -> None:
        operation = self.cut(bench)
        bench.world.sim.inject("h1", ["on"])  # and still unreachable
        outcome = bench.world.engine.resume(operation)
        assert "cannot tell whether desk runs on h1" in str(outcome.vms[0].error)
        assert bench.state("h2") in {None, DomainState.SHUTOFF}
        bench.world.sim.inject("h1", ["off"])
        bench.world.engine.resume(operation).raise_for_failure()
        assert bench.state("h2") is DomainState.RUNNING

    def test_a_host_that_answers_again_is_asked(self, bench: Bench) -> None:
        operation = self.cut(bench)
        bench.back()
        bench.world.engine.resume(operation).raise_for_failure()
        assert (bench.state("h1"), bench.state("h2")) == (DomainState.SHUTOFF, DomainState.RUNNING)

    def test_one_that_somebody_started_there_is_not_started_twice(self, bench: Bench) -> None:
        operation = self.cut(bench)
        bench.back()
        h1 = bench.world.hosts.open(bench.world.ledger.host("h1"))
        h1.helper.call("restore", {})
        h1.domains.start("desk")
        outcome = bench.world.engine.resume(operation)
        assert "desk is running on h1" in str(outcome.vms[0].error)
        assert bench.state("h2") is not DomainState.RUNNING
        bench.world.engine.undo(operation)
        assert bench.world.ledger.vm("desk").host == "h1"
        assert bench.state("h2") is None
        [held] = bench.world.ledger.allocations()
        assert held.host == "h1"

    def test_one_that_was_started_only_goes_forward(self, bench: Bench) -> None:
        """Killed between its start and the commit that gives it its new host."""
        operation = self.cut(bench, 5, after=False)
        assert bench.state("h2") is DomainState.RUNNING
        outcome = bench.world.engine.undo(operation)
        assert "can no longer be undone" in str(outcome.vms[0].error)
        assert bench.state("h2") is DomainState.RUNNING
        bench.world.engine.resume(operation).raise_for_failure()
        assert bench.world.ledger.vm("desk").host == "h2"

    def test_the_same_command_goes_on(self, bench: Bench) -> None:
        self.cut(bench)
        bench.world.engine.evacuate("h1")[1].raise_for_failure()
        assert bench.state("h2") is DomainState.RUNNING
        assert not bench.world.ledger.operations(open_only=True)


def test_a_target_that_refuses_leaves_the_vm_where_it_was(bench: Bench) -> None:
    bench.make(vm("desk", "T4-8Q", disks=SHARED))
    bench.lose()
    bench.world.sim.inject("h2", ["refuse", "mdev_create", "EIO", "9"])
    _, outcome = bench.world.engine.evacuate("h1")
    with pytest.raises(VgpumgrError):
        outcome.raise_for_failure()
    desk, [held] = bench.world.ledger.vm("desk"), bench.world.ledger.allocations()
    assert (desk.host, desk.state, held.host) == ("h1", VmState.ACTIVE, "h1")
    assert bench.state("h2") is None
    bench.world.sim.inject("h2", ["clear"])
    bench.world.engine.evacuate("h1")[1].raise_for_failure()
    assert bench.state("h2") is DomainState.RUNNING


def test_serve_tells_of_a_lost_host_that_is_off_and_what_to_type(bench: Bench) -> None:
    bench.make(vm("desk", "T4-8Q", disks=SHARED))
    bench.world.sim.inject("h1", ["off"])
    served = Served(bench.world.engine)
    served.controller.once()
    served.controller.once()
    told = [each.next for each in served.events if "can be recreated" in each.text]
    assert told == ["vgpumgr host evacuate h1   (or the setting evacuate: automatic)"]
    assert bench.world.ledger.vm("desk").host == "h1"


def test_in_a_frozen_ledger_a_host_is_neither_switched_off_nor_marked(bench: Bench) -> None:
    bench.make(vm("desk", "T4-8Q", disks=SHARED))
    bench.lose()
    bench.world.ledger.freeze("it went back in time")
    with pytest.raises(Conflict, match="frozen"):
        bench.world.engine.evacuate("h1")
    record = bench.world.ledger.host("h1")
    assert (record.cordoned, record.maintenance, record.evacuated) == (False, False, False)
    assert bench.world.sim.host("h1").faults.powered
