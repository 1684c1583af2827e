"""Heal: every kind of difference has a remedy or names who must act; only what is ours is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.drift import values
from tests.unit.drift.test_by_hand import CLAIMS, HANDS, Bench, mdevctl_stop, on_t4, whole
from vgpumgr.engine.drift.drift_survey import compare
from vgpumgr.engine.drift.host_comparison import OperationsInProgress
from vgpumgr.engine.heal.heal_plan import plan
from vgpumgr.engine.heal.remedy import DriftSelection, EndedRecords, HealPlan, HealReport, RemedyWay
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.domain import DomainState
from vgpumgr.model.drift import Drift, DriftReport
from vgpumgr.model.drift import DriftKind as Kind
from vgpumgr.model.errors import Conflict, Frozen
from vgpumgr.model.gpu import GpuHealth, GpuState
from vgpumgr.model.operation import OperationState, TaskState

ALL = DriftSelection()
# What only a person ends.
BY_YOU = {"vol-delete", "a VF's type rewritten"}
LEFT_ALONE = {"mdevctl start"}
HEALED = {
    "virsh destroy",
    "virsh undefine",
    "virsh undefine of a running one",
    "virsh edit: memory",
    "virsh edit: mark",
    "mdevctl stop",
    "a claim of a VF removed",
    "sriov-manage -d",
    "a GPU rebound",
}


def ways(planned: HealPlan) -> set[tuple[Kind, RemedyWay]]:
    return {(each.drift.kind, each.way) for each in planned.remedies}


def healed(bench: Bench) -> HealReport:
    found = bench.world.engine.heal(ALL)
    assert {each.state for each in found.outcome.vms} <= {TaskState.DONE}
    assert not found.errors
    assert not bench.world.ledger.operations(open_only=True)
    return found


@pytest.mark.parametrize("name", sorted(BY_YOU | LEFT_ALONE | HEALED))
def test_what_was_done_by_hand_is_healed_or_named(name: str, tmp_path: Path) -> None:
    where, change, kinds, _ = HANDS[name]
    with where(tmp_path) as bench:
        change(bench)
        before = bench.world.facts()
        planned = bench.world.engine.heal_plan(ALL)
        assert {each.drift.kind for each in planned.remedies} == kinds
        assert replace(bench.world.facts(), boot_id="") == replace(before, boot_id="")
        if name in BY_YOU | LEFT_ALONE:
            assert not planned.to_do
            assert bool(planned.for_you) is (name in BY_YOU)
            assert all(each.next for each in planned.for_you)
            assert {each.drift.kind for each in healed(bench).left.remedies} == kinds
        else:
            assert not planned.for_you
            assert healed(bench).left.remedies == ()
            assert bench.found.drifts == ()


def every_kind() -> Iterator[Drift]:
    for kind in Kind:
        gpu = "gpu-1" if kind in {Kind.LAYOUT, Kind.GPU_LOST, Kind.GPU_MISSING} else ""
        yield Drift(kind=kind, host="h1", subject="x", text="t", next="n", gpu=gpu, vm="web")


def test_every_kind_has_a_remedy() -> None:
    """One that is added without saying what helps fails here."""
    fleet = values.mdev()
    gpu = fleet.view.gpus[0].id
    drifts = tuple(replace(each, gpu=gpu if each.gpu else "") for each in every_kind())
    for drift in drifts:
        report = DriftReport(drifts=(drift,))
        [remedy] = plan(report, fleet.view, fleet.seen, EndedRecords())
        assert remedy.text
        assert remedy.ours or remedy.next


def test_nothing_of_a_host_that_cannot_be_read_is_touched(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        bench.off()
        bench.world.sim.inject("h1", ["unreachable"])
        planned = bench.world.engine.heal_plan(ALL)
        assert (planned.remedies, len(planned.not_read)) == ((), 1)
        found = bench.world.engine.heal(ALL)
        assert not found.outcome.vms
        assert len(found.left.not_read) == 1


def test_claims_that_could_not_be_read_are_not_missing(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        unit = f"{CLAIMS}/mdev-{bench.allocation.device}.json"
        bench.root.simulated.system.store(unit, "no json")
        planned = bench.world.engine.heal_plan(ALL)
        assert planned.remedies == ()
        assert planned.not_read


def test_only_what_was_chosen_is_done(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        bench.host.domains.set_autostart("web", on=True)
        bench.off()
        only = DriftSelection(kinds=frozenset({Kind.DEFINITION}))
        assert {each.drift.kind for each in bench.world.engine.heal_plan(only).remedies} == {
            Kind.DEFINITION
        }
        bench.world.engine.heal(only)
        assert {each.kind for each in bench.found.drifts} == {Kind.POWER}
        none = DriftSelection(vms=frozenset({"other"}))
        assert bench.world.engine.heal_plan(none).remedies == ()


def test_a_paused_guest_is_a_persons(tmp_path: Path) -> None:
    fleet = values.mdev().with_domain(state=DomainState.PAUSED)
    drifts = compare(fleet.view, fleet.seen, OperationsInProgress())
    [remedy] = plan(DriftReport(drifts=drifts), fleet.view, fleet.seen, EndedRecords())
    assert (remedy.drift.kind, remedy.way) == (Kind.POWER, RemedyWay.YOU)


# -- what VMs that are gone left behind ------------------------------------------------------------


def test_what_a_deleted_vm_left_is_cleaned(tmp_path: Path) -> None:
    """The host was restored from an old image: domain, mdev and claim of before are back."""
    with on_t4(tmp_path) as bench:
        xml, held = bench.host.domains.xml("web"), bench.allocation
        bench.world.delete("web")
        kind = f"/sys/class/mdev_bus/{held.parent}/mdev_supported_types/{held.type_id}"
        bench.root.write(f"{kind}/create", held.device)
        claim_again(bench, held.id)
        bench.host.domains.define(xml)
        planned = bench.world.engine.heal_plan(ALL)
        assert ways(planned) == {
            (Kind.DOMAIN_LEFTOVER, RemedyWay.CLEAN),
            (Kind.CLAIM_LEFTOVER, RemedyWay.YOU),
        }
        assert healed(bench).left.to_do, "the device is free once no domain names it"
        assert healed(bench).left.remedies == ()
        facts = bench.world.facts()
        assert (facts.mdevs, facts.claims, facts.domains) == ((), (), ())


def claim_again(bench: Bench, allocation: str) -> None:
    held = next(
        each for each in bench.world.ledger.allocations(released=True) if each.id == allocation
    )
    bench.host.helper.call(
        "mdev_adopt",
        {
            "parent": held.parent,
            "type": held.type_id,
            "uuid": held.device,
            "claim": {"allocation": held.id, "generation": held.generation, "vm": held.vm},
        },
    )


def test_a_leftover_that_runs_is_left(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        xml, held = bench.host.domains.xml("web"), bench.allocation
        bench.world.engine.delete(["web"], keep_disks=True, force=True).raise_for_failure()
        kind = f"/sys/class/mdev_bus/{held.parent}/mdev_supported_types/{held.type_id}"
        bench.root.write(f"{kind}/create", held.device)
        bench.host.domains.define(xml)
        bench.host.domains.start("web")
        planned = bench.world.engine.heal_plan(
            DriftSelection(kinds=frozenset({Kind.DOMAIN_LEFTOVER}))
        )
        assert [each.way for each in planned.remedies] == [RemedyWay.YOU]
        assert "running" in planned.remedies[0].text
        bench.world.engine.heal(ALL)
        assert bench.host.domains.look("web") is not None


def test_what_the_ledger_never_knew_is_not_taken_away(tmp_path: Path) -> None:
    """An older copy of the ledger does not know it either: nothing proves that it may go."""
    with on_t4(tmp_path) as bench:
        gpu = bench.world.gpu()
        kind = next(each.type_id for each in gpu.mdev_types if each.profile == "T4-4Q")
        claim = {"allocation": "never-known", "generation": 1, "vm": "ghost"}
        uuid = "11111111-2222-3333-4444-555555555555"
        args = {"parent": gpu.device, "type": kind, "uuid": uuid, "claim": claim}
        bench.host.helper.call("mdev_create", args)
        planned = bench.world.engine.heal_plan(ALL)
        assert ways(planned) == {(Kind.CLAIM_LEFTOVER, RemedyWay.YOU)}
        with pytest.raises(Frozen):
            bench.world.engine.heal(ALL)
        assert uuid in {each.uuid for each in bench.world.facts().mdevs}


# -- units that nothing stands for -----------------------------------------------------------------


def reinstalled(bench: Bench) -> None:
    """Nothing of the VM is left on its host."""
    mdevctl_stop(bench)
    bench.remove_claim()
    volume_deleted_off(bench)


def volume_deleted_off(bench: Bench) -> None:
    for pool, name in bench.world.ledger.vm("web").volumes:
        bench.host.storage.delete(pool, name)
    bench.host.domains.undefine("web")


def test_an_orphan_is_marked_looked_at_twice_and_released(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        reinstalled(bench)
        planned = bench.world.engine.heal_plan(ALL)
        assert (Kind.DEVICE_MISSING, RemedyWay.RELEASE) in ways(planned)
        assert bench.allocation.state is AllocationState.ACTIVE, "a plan marks nothing"
        healed(bench)
        assert bench.world.ledger.allocations() == ()
        events = [each.event for each in bench.world.ledger.audit(vm="web")]
        assert "allocation.orphaned" in events
        assert "allocation.released" in events
        with pytest.raises(Conflict, match="its GPU parts were released"):
            bench.world.engine.start(["web"])
        [remedy] = bench.world.engine.heal_plan(
            DriftSelection(kinds=frozenset({Kind.DOMAIN_MISSING}))
        ).remedies
        assert (remedy.way, "vm delete web" in remedy.next) == (RemedyWay.YOU, True)
        bench.world.delete("web")
        assert bench.found.drifts == ()


def test_an_orphan_that_comes_back_before_the_second_look_is_none(tmp_path: Path) -> None:
    """The host was still restoring: its claims came late."""
    with on_t4(tmp_path) as bench:
        xml, held = bench.host.domains.xml("web"), bench.allocation
        reinstalled(bench)

        class Late:
            """The host goes on while we wait."""

            def __getattr__(self, name: str) -> object:
                return getattr(bench.world.engine.clock, name)

            def wait(self, seconds: float) -> None:
                if seconds > 1:
                    bench.host.domains.define(xml)

        engine = replace(bench.world.engine, clock=Late())  # type: ignore[arg-type]
        engine.heal(ALL)
        [now] = bench.world.ledger.allocations()
        assert (now.id, now.state) == (held.id, AllocationState.ACTIVE)
        assert "heal" not in {each.kind for each in bench.world.ledger.operations()}


def test_a_device_that_is_gone_alone_is_made_again_and_not_released(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        held = bench.allocation
        mdevctl_stop(bench)
        bench.remove_claim()
        healed(bench)
        assert bench.allocation == replace(held, state=AllocationState.ACTIVE)
        assert bench.found.drifts == ()


# -- the rest --------------------------------------------------------------------------------------


def test_a_lost_gpu_is_quarantined_until_it_is_lifted(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        gpu = bench.world.ledger.gpus()[0]
        bench.world.sim.inject("h1", ["gpu", gpu.facts.device, "xid", "79"])
        planned = bench.world.engine.heal_plan(DriftSelection(kinds=frozenset({Kind.GPU_LOST})))
        assert [each.way for each in planned.remedies] == [RemedyWay.QUARANTINE]
        bench.world.engine.heal(DriftSelection(kinds=frozenset({Kind.GPU_LOST})))
        [now] = bench.world.ledger.gpus()
        assert (now.state, now.state_why) == (
            GpuState.QUARANTINED,
            f"T4 {gpu.facts.device} fell off the bus",
        )
        with pytest.raises(Conflict, match="lost"):
            bench.world.engine.lift(gpu.id)
        bench.world.sim.inject("h1", ["clear"])
        assert "quarantined: T4" in bench.world.supply().blocked, "it came back, and stays so"
        bench.world.engine.lift(gpu.id)
        assert bench.world.ledger.gpus()[0].facts.health is GpuHealth.OK
        assert not bench.world.supply().blocked


def test_an_operation_that_was_cut_goes_on(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        engine = bench.world.engine
        hosts = bench.world.sim
        hosts.inject("h1", ["refuse", "domains.undefine", "EIO", "1"])
        engine.delete(["web"], keep_disks=False, force=True)
        hosts.inject("h1", ["clear"])
        bench.world.restart()
        planned = bench.world.engine.heal_plan(ALL)
        assert ways(planned) == {(Kind.UNFINISHED, RemedyWay.RESUME)}
        bench.world.engine.heal(ALL)
        assert bench.world.ledger.vms() == ()
        assert bench.found.drifts == ()


def test_a_frozen_ledger_heals_nothing(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        bench.off()
        bench.world.ledger.freeze("the hosts know more")
        with pytest.raises(Frozen):
            bench.world.engine.heal(ALL)
        assert bench.world.engine.heal_plan(ALL).to_do


def test_a_host_in_maintenance_is_left_alone(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        bench.off()
        record = bench.world.ledger.host("h1")
        bench.world.ledger.update_host(replace(record, maintenance=True))
        planned = bench.world.engine.heal_plan(DriftSelection(hosts=("h1",)))
        assert [each.way for each in planned.remedies] == [RemedyWay.YOU]
        assert "maintenance" in planned.remedies[0].text


def test_a_vm_is_healed_in_one_task_and_the_journal_says_so(tmp_path: Path) -> None:
    with on_t4(tmp_path) as bench:
        bench.host.domains.set_autostart("web", on=True)
        mdevctl_stop(bench)
        found = healed(bench)
        operation = bench.world.ledger.operation(found.outcome.operation)
        assert (operation.kind, operation.state) == ("heal", OperationState.DONE)
        [task] = bench.world.ledger.tasks(operation.id)
        kinds = [each.kind for each in task.steps]
        assert kinds == ["RealiseDevice", "RedefineDomain", "StartDomain"]


def test_a_whole_gpu_whose_claim_was_lost_is_claimed_as_it_is(tmp_path: Path) -> None:
    with whole(tmp_path) as bench:
        bench.remove_claim()
        healed(bench)
        bench.world.delete("web")
        assert bench.world.facts().claims == ()
        assert bench.world.gpu().driver == "vfio-pci", "what it was on before is not known any more"


def test_the_page_names_every_kind() -> None:
    page = Path("docs/heal.md").read_text()
    assert [str(kind) for kind in Kind if f"`{kind}`" not in page] == []


@pytest.mark.parametrize(
    ("deleted", "state", "way"),
    [
        (False, DomainState.SHUTOFF, RemedyWay.YOU),
        (True, DomainState.SHUTOFF, RemedyWay.CLEAN),
        (True, DomainState.RUNNING, RemedyWay.YOU),
        (True, DomainState.PAUSED, RemedyWay.YOU),
    ],
)
def test_a_domain_goes_only_where_its_vm_is_known_as_deleted_and_it_is_off(
    deleted: bool, state: DomainState, way: RemedyWay
) -> None:
    fleet = values.mdev()
    past = EndedRecords(deleted=frozenset({fleet.vm.id} if deleted else ()))
    gone = fleet.with_view(vms=(), allocations=()).with_domain(state=state)
    drifts = tuple(
        each
        for each in compare(gone.view, gone.seen, OperationsInProgress())
        if each.kind is Kind.DOMAIN_LEFTOVER
    )
    [remedy] = plan(DriftReport(drifts=drifts), gone.view, gone.seen, past)
    assert remedy.way is way


def test_a_stray_domain_goes_only_where_its_vm_is_seen_at_home() -> None:
    """An off domain here, and the VM's own on its host, or nobody knows."""
    fleet = values.mdev()
    home = replace(fleet.view.hosts[0], name="h2")
    away = (
        fleet.with_vm(host="h2")
        .with_view(hosts=(*fleet.view.hosts, home), allocations=())
        .with_domain(state=DomainState.SHUTOFF)
    )
    [drift] = [
        each
        for each in compare(away.view, away.seen, OperationsInProgress())
        if each.kind is Kind.DOMAIN_ELSEWHERE
    ]
    report = DriftReport(drifts=(drift,))
    [unseen] = plan(report, away.view, away.seen, EndedRecords())
    assert unseen.way is RemedyWay.YOU
    there = {**away.seen, "h2": fleet.seen["h1"]}
    [seen] = plan(report, away.view, there, EndedRecords())
    assert seen.way is RemedyWay.CLEAN
