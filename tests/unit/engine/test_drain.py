"""A host that is emptied: live where it can be, cold where its operator wants it, and no guess."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import NEW, SimWorld, host, vm
from vgpumgr.engine.hosts import host_drain
from vgpumgr.engine.hosts.host_drain import DrainRequest
from vgpumgr.model.domain import DomainState, MigrationAddress
from vgpumgr.model.errors import Conflict, HostUnreachable, VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.vm import Affinity, VmSpec

OTHER_DRIVER = replace(NEW, driver="570.86.16")


class Bench:
    """h1 with VMs, h2 and h3 alike and empty; all take running VMs."""

    def __init__(self, folder: Path) -> None:
        self.world = SimWorld(folder, *(host("T4", "T4", name=name) for name in ("h1", "h2", "h3")))
        for name in ("h1", "h2", "h3"):
            self.change(name, migration=MigrationAddress(address=name))

    def change(self, name: str, **fields: object) -> None:
        record = self.world.ledger.host(name)
        self.world.ledger.update_host(replace(record, **fields))  # type: ignore[arg-type]

    def make(self, *vms: VmSpec) -> None:
        """On h1."""
        for name in ("h2", "h3"):
            self.change(name, cordoned=True)
        self.world.apply(*vms)
        for name in ("h2", "h3"):
            self.change(name, cordoned=False)

    def where(self) -> dict[str, str]:
        return {each.name: each.host for each in self.world.ledger.vms()}

    def drain(self, **wanted: object) -> host_drain.DrainReport:
        return self.world.engine.drain(DrainRequest(host="h1", **wanted))  # type: ignore[arg-type]

    def h1(self) -> HostRecord:
        return self.world.ledger.host("h1")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.world.close()


def test_every_vm_leaves_running(bench: Bench) -> None:
    bench.make(*(vm(f"d{n}", "T4-8Q") for n in range(3)), vm("plain"))
    drained = bench.drain()
    drained.outcome.raise_for_failure()
    assert (len(drained.outcome.done), drained.staying) == (4, ())
    assert "h1" not in bench.where().values()
    assert (bench.h1().cordoned, bench.h1().draining) == (True, True)
    facts = bench.world.facts()
    assert (facts.domains, facts.mdevs, facts.claims) == ((), (), ())
    for name in ("h2", "h3"):
        assert all(d.state is DomainState.RUNNING for d in bench.world.facts(name).domains)
    moves = [each for each in bench.world.ledger.operations() if each.kind == "vm migrate"]
    assert len(moves) == 4


def test_only_where_it_is_told(bench: Bench) -> None:
    bench.make(vm("a", "T4-8Q"), vm("b", "T4-8Q"))
    bench.drain(to=("h3",)).outcome.raise_for_failure()
    assert set(bench.where().values()) == {"h3"}
    assert bench.h1().drain_to == ("h3",)


def test_a_dry_run_says_where_and_changes_nothing(bench: Bench) -> None:
    bench.make(*(vm(f"d{n}", "T4-16Q") for n in range(2)))
    bench.change("h3", cordoned=True)
    before = bench.where(), bench.world.ledger.operations()
    choices = bench.world.engine.drain_plan(DrainRequest(host="h1"))
    assert [each.move[0].target.name for each in choices if each.move] == ["h2", "h2"]
    assert (bench.where(), bench.world.ledger.operations()) == before
    assert not bench.h1().draining


def test_what_cannot_move_running_stays_and_says_what_to_type(bench: Bench) -> None:
    bench.make(vm("whole", "passthrough"), vm("part", "T4-8Q"))
    drained = bench.drain()
    assert bench.where()["part"] != "h1"
    [stays] = drained.staying
    assert stays.vm.name == "whole"
    assert "cannot move while whole runs" in stays.why
    assert stays.next.startswith("vgpumgr host drain h1 --cold")
    assert bench.world.facts().domains[0].state is DomainState.RUNNING


def test_cold_moves_what_cannot_move_running_and_nothing_else(bench: Bench) -> None:
    bench.make(vm("whole", "passthrough"), vm("part", "T4-8Q"))
    boots = [operation.kind for operation in bench.world.ledger.operations()]
    drained = bench.drain(cold=True)
    drained.outcome.raise_for_failure()
    assert "h1" not in bench.where().values()
    kinds = {
        task.vm: {step.kind for step in task.steps}
        for operation in bench.world.ledger.operations()
        if operation.kind == "vm migrate"
        for task in bench.world.ledger.tasks(operation.id)
    }
    assert "MoveDomain" in kinds["part"]
    assert "StartMoved" in kinds["whole"]
    assert boots == ["apply"]


def test_a_vm_that_is_off_leaves_without_asking(bench: Bench) -> None:
    bench.make(vm("whole", "passthrough"))
    bench.world.engine.stop_vms(["whole"], force=True, timeout_s=1.0).raise_for_failure()
    bench.drain().outcome.raise_for_failure()
    assert bench.where()["whole"] != "h1"


def test_affinity_is_kept(bench: Bench) -> None:
    bench.make(vm("tied", "T4-8Q", affinity=Affinity(hosts=("h1",))))
    [stays] = bench.drain().staying
    assert "affinity" in stays.why


def test_a_full_fleet_says_so(bench: Bench) -> None:
    bench.make(*(vm(f"d{n}", "T4-16Q") for n in range(2)))
    bench.change("h3", cordoned=True)
    bench.change("h1", cordoned=True)
    bench.world.apply(vm("there", "T4-16Q"))
    bench.change("h1", cordoned=False)
    drained = bench.drain()
    assert (len(drained.outcome.done), len(drained.staying)) == (1, 1)
    assert "free capacity" in drained.staying[0].next


def test_the_next_best_host_is_taken_where_the_best_refuses(tmp_path: Path) -> None:
    """Placement knows nothing of drivers; the checks of a live move do."""
    world = SimWorld(
        tmp_path,
        host("T4"),
        host("T4", "T4", name="h2", versions=OTHER_DRIVER),
        host("T4", name="h3"),
    )
    for name in ("h1", "h2", "h3"):
        record = world.ledger.host(name)
        to = MigrationAddress(address=name)
        world.ledger.update_host(replace(record, migration=to, cordoned=name != "h1"))
    world.apply(vm("desk", "T4-8Q"))
    for name in ("h2", "h3"):
        world.ledger.update_host(replace(world.ledger.host(name), cordoned=False))
    world.engine.drain(DrainRequest(host="h1")).outcome.raise_for_failure()
    assert world.ledger.vm("desk").host == "h3"
    world.close()


def test_a_step_moves_one(bench: Bench) -> None:
    bench.make(vm("a", "T4-8Q"), vm("b", "T4-8Q"))
    bench.change("h1", cordoned=True, draining=True, drain_to=("h2",))
    assert len(host_drain.step(bench.world.engine, "h1").outcome.done) == 1
    assert sorted(bench.where().values()) == ["h1", "h2"]
    host_drain.step(bench.world.engine, "h1")
    assert set(bench.where().values()) == {"h2"}
    assert host_drain.step(bench.world.engine, "h1").outcome.vms == ()


def test_a_vm_that_its_pool_deletes_meanwhile_does_not_stay(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.make(vm("a", "T4-8Q"), vm("b", "T4-8Q"))
    leave = host_drain._leave

    def deleting(*given: Any) -> Any:
        if "b" in bench.where():
            bench.world.engine.delete(["b"], keep_disks=False, force=True)
        return leave(*given)

    monkeypatch.setattr(host_drain, "_leave", deleting)
    done = bench.drain()
    assert (bench.where(), done.staying) == ({"a": "h2"}, ())


@pytest.mark.parametrize("at", [1, 4, 7])
def test_a_drain_that_was_cut_goes_on(at: int, bench: Bench) -> None:
    bench.make(vm("a", "T4-8Q"), vm("b", "T4-8Q"))
    mortal = Mortal(bench.world.ledger, at, after=True)
    with pytest.raises(Killed):
        replace(bench.world.engine, ledger=mortal).drain(DrainRequest(host="h1"))  # type: ignore[arg-type]
    bench.world.restart()
    bench.drain().outcome.raise_for_failure()
    assert "h1" not in bench.where().values()
    assert not bench.world.ledger.operations(open_only=True)
    assert bench.world.facts().domains == ()


def test_a_host_that_does_not_answer_is_not_drained(bench: Bench) -> None:
    bench.make(vm("a", "T4-8Q"))
    bench.world.sim.inject("h1", ["unreachable"])
    with pytest.raises(HostUnreachable) as refused:
        bench.drain()
    assert "host evacuate h1" in refused.value.next
    assert bench.where() == {"a": "h1"}


def test_undrain_ends_it(bench: Bench) -> None:
    bench.drain(to=("h2",))
    bench.world.engine.undrain("h1")
    record = bench.h1()
    assert (record.cordoned, record.draining, record.drain_to) == (False, False, ())


class TestMaintenance:
    def test_only_when_nothing_runs(self, bench: Bench) -> None:
        bench.make(vm("a", "T4-8Q"))
        with pytest.raises(Conflict, match="not empty: a"):
            bench.world.engine.enter_maintenance("h1")
        assert not bench.h1().maintenance
        bench.world.engine.stop_vms(["a"], force=True, timeout_s=1.0).raise_for_failure()
        bench.world.engine.enter_maintenance("h1")
        assert bench.h1().maintenance

    def test_a_refusal_leaves_the_host_as_it_was(self, bench: Bench) -> None:
        bench.make(vm("a", "T4-8Q"))
        with pytest.raises(Conflict, match="not empty: a"):
            bench.world.engine.enter_maintenance("h1")
        assert not bench.h1().cordoned
        bench.world.sim.inject("h1", ["unreachable"])
        for enter in (bench.drain, lambda: bench.world.engine.enter_maintenance("h1")):
            with pytest.raises(VgpumgrError, match="h1"):
                enter()
            assert (bench.h1().cordoned, bench.h1().draining) == (False, False)

    def test_it_may_be_off_without_a_word(self, bench: Bench) -> None:
        bench.world.engine.enter_maintenance("h1")
        bench.world.sim.inject("h1", ["off"])
        assert bench.world.engine.refresh_all() == ()
        assert not bench.world.engine.drift().not_read
        bench.world.apply(vm("a", "T4-8Q"))
        assert bench.where()["a"] != "h1"
        with pytest.raises(Conflict):
            bench.world.engine.undrain("h1")

    def test_it_is_compared_before_it_takes_vms(self, bench: Bench) -> None:
        bench.world.engine.enter_maintenance("h1")
        bench.world.sim.inject("h1", ["off"])
        with pytest.raises(Exception, match="could not be read"):
            bench.world.engine.leave_maintenance("h1")
        bench.world.sim.inject("h1", ["on"])
        gpu = bench.world.gpu().device
        bench.world.sim.inject("h1", ["gpu", gpu, "lost"])
        with pytest.raises(Conflict, match="stays in maintenance"):
            bench.world.engine.leave_maintenance("h1")
        assert bench.h1().maintenance
        bench.world.sim.inject("h1", ["clear"])
        bench.world.sim.inject("h1", ["reboot"])
        bench.world.engine.leave_maintenance("h1")
        assert (bench.h1().maintenance, bench.h1().cordoned) == (False, False)

    def test_nothing_is_started_there(self, bench: Bench) -> None:
        bench.make(vm("a", "T4-8Q"))
        bench.world.engine.stop_vms(["a"], force=True, timeout_s=1.0).raise_for_failure()
        bench.world.engine.enter_maintenance("h1")
        with pytest.raises(Conflict, match="h1 is in maintenance"):
            bench.world.engine.start(["a"])
        assert not bench.world.ledger.operations(open_only=True)
        assert bench.world.facts().domains[0].state is DomainState.SHUTOFF


def test_a_target_that_refuses_gives_way_to_another(bench: Bench) -> None:
    bench.make(vm("web", "T4-4Q"))
    first = bench.world.engine.drain_plan(DrainRequest(host="h1"))[0].move
    assert first is not None
    target = first[0].target.name
    bench.world.sim.hosts[target].faults.inject(["refuse", "mdev_create", "EIO", "9"])
    bench.drain()
    other = ({"h2", "h3"} - {target}).pop()
    assert bench.where() == {"web": other}, f"{target} refuses, {other} does not"
