"""The failover reserve: capacity that placement keeps for the VMs of lost hosts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fencing import SimFencing
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.planning.failover_check import FailoverCheck
from vgpumgr.engine.planning.placement_limits import RESERVE
from vgpumgr.engine.queue import queue_cycle
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.engine.reservation.vm_reservations import apply_reservation
from vgpumgr.engine.vms.vm_shelving import unshelve
from vgpumgr.engine.whatif.simulation import Supposition, simulate
from vgpumgr.model.errors import NoPlacement, StaleGeneration
from vgpumgr.model.failover import FailoverReserve
from vgpumgr.model.host import Fence
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.placement import Placed
from vgpumgr.model.queue import QueueState
from vgpumgr.model.vm import Affinity, Terms, VmSpec
from vgpumgr.model.vm_devices import DiskSpec

ONE, TWO = FailoverReserve(hosts=1), FailoverReserve(hosts=2)
HOSTS = ("h1", "h2", "h3")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    """Three hosts of one T4 each: a T4 has room for two VMs of 8 GiB."""
    made = SimWorld(tmp_path, *(host("T4", name=name) for name in HOSTS))
    made.engine = replace(made.engine, reserve=ONE)
    made.engine.refresh()
    yield made
    made.close()


def homeless(world: SimWorld, lost: str) -> int:
    """VMs of a lost host that would have no place, by another way than the reserve's own."""
    context = world.engine
    return simulate(context.view(), Supposition(failed=(lost,)), context.place).homeless


def eights(count: int, prefix: str = "vm", **fields: object) -> list[VmSpec]:
    return [vm(f"{prefix}-{n}", "T4-8Q", **fields) for n in range(count)]


def test_what_would_leave_the_vms_of_a_lost_host_without_a_place_is_refused(
    world: SimWorld,
) -> None:
    world.apply(*eights(4))
    assert [homeless(world, name) for name in HOSTS] == [0, 0, 0]
    with pytest.raises(NoPlacement) as refused:
        world.apply(vm("more", "T4-8Q"))
    assert "the failover reserve would not hold: if h" in str(refused.value.why)
    assert "it fits with one more host, or a smaller reserve" in str(refused.value.why)
    world.engine = replace(world.engine, reserve=FailoverReserve())
    world.apply(vm("more", "T4-8Q"))  # there was room: it was kept


def test_of_an_order_the_vms_beyond_the_reserve_are_named(world: SimWorld) -> None:
    plan = world.engine.plan(eights(6))
    assert len(plan.unplaced) == 2
    assert {reason.code for each in plan.unplaced for reason in each.reasons} == {RESERVE}


def test_two_hosts_may_be_lost(world: SimWorld) -> None:
    world.engine = replace(world.engine, reserve=TWO)
    assert len(world.engine.plan(eights(6)).unplaced) == 4


def test_spot_vms_and_vms_bound_to_their_host_need_no_other_place(world: SimWorld) -> None:
    world.apply(*eights(2, "here", affinity=Affinity(hosts=("h1",))))
    world.apply(*eights(2, "spot", queue=Terms(spot=True)))
    losses = FailoverCheck(world.engine.view(), ONE).losses()
    assert [each.vms for each in losses] == [0, 0, 0]


def test_a_queued_vm_waits_for_the_reserve(world: SimWorld) -> None:
    world.apply(*eights(4))
    world.apply(vm("waits", "T4-8Q", queue=Terms()))
    assert not queue_cycle.step(world.engine).started
    [entry] = world.ledger.queue()
    assert entry.state is QueueState.WAITING
    world.delete("vm-0")
    world.engine.refresh()
    assert queue_cycle.step(world.engine).started == ("waits",)


def test_a_shelved_vm_does_not_come_back_into_the_reserve(world: SimWorld) -> None:
    world.apply(*eights(4))
    world.engine.shelve(["vm-0"], StopManner(force=True)).raise_for_failure()
    world.apply(vm("other", "T4-8Q"))
    with pytest.raises(NoPlacement):
        unshelve(world.engine, [world.ledger.vm("vm-0")])


def test_a_lost_host_is_evacuated_into_the_reserve(tmp_path: Path) -> None:
    pools: dict[str, object] = {"pools": ("default", "nas"), "shared_pools": ("nas",)}
    world = SimWorld(tmp_path, *(host("T4", name=name, **pools) for name in HOSTS))
    fencing = SimFencing(world.sim)
    world.engine = replace(world.engine, reserve=ONE, fencing=fencing)
    for record in world.ledger.hosts():
        fence = Fence(off=("/bin/off",), status=("/bin/status",))
        world.ledger.update_host(replace(record, fence=fence))
    world.engine.refresh()
    world.apply(*eights(4, disks=(DiskSpec(pool="nas", size_bytes=1 << 20),)))
    lost = world.ledger.vm("vm-0").host
    world.sim.inject(lost, ["unreachable"])
    planned, outcome = world.engine.evacuate(lost)
    outcome.raise_for_failure()
    assert not planned.staying and planned.remade
    assert lost not in {each.host for each in world.ledger.vms()}
    world.close()


def test_where_the_reserve_does_not_hold_only_what_makes_it_worse_is_refused(
    tmp_path: Path,
) -> None:
    """The one A40 of the fleet has no substitute: VMs of other boards come all the same."""
    world = SimWorld(tmp_path, host("A40"), *(host("T4", name=name) for name in ("h2", "h3")))
    world.engine.refresh()
    world.cut(GpuLayout(vfs=VFS_MAX))
    world.engine.refresh()
    world.apply(vm("only", "A40-8Q"))
    world.engine = replace(world.engine, reserve=ONE)
    world.apply(vm("t4", "T4-8Q"))
    with pytest.raises(NoPlacement, match="more"):
        world.apply(vm("more", "A40-8Q"))
    world.close()


def test_of_two_placements_planned_at_a_time_one_is_planned_again(world: SimWorld) -> None:
    """On different hosts, each alone within the reserve; both together are not."""
    world.apply(*eights(3))
    engine, view = world.engine, world.engine.view()
    bound = [vm(f"on-{name}", "T4-8Q", affinity=Affinity(hosts=(name,))) for name in HOSTS]
    plans = [engine.plan([each]) for each in bound]
    fitting = [plan for plan in plans if not plan.unplaced][:2]
    assert len(fitting) == 2
    first, second = (apply_reservation(plan, view, engine.opening()) for plan in fitting)
    world.ledger.reserve(first)
    with pytest.raises(StaleGeneration):
        world.ledger.reserve(second)


@pytest.mark.parametrize("seed", range(4))
def test_the_reserve_holds_after_every_step(tmp_path: Path, seed: int) -> None:
    """VMs of many sizes come and go: what was let in would find a place, by what is simulated."""
    world = SimWorld(tmp_path, *(host("T4", name=f"h{n}") for n in range(4)))
    world.engine = replace(world.engine, reserve=ONE)
    world.engine.refresh()
    rng, refused = random.Random(seed), 0
    for number in range(20):
        there = [each.name for each in world.ledger.vms()]
        if there and rng.random() < 0.25:
            world.delete(rng.choice(there))
        else:
            try:
                world.apply(vm(f"vm-{number}", rng.choice(["T4-4Q", "T4-8Q", "T4-16Q"])))
            except NoPlacement:
                refused += 1
        assert [homeless(world, f"h{n}") for n in range(4)] == [0] * 4
    assert refused
    world.close()


def test_a_loss_is_tried_as_if_every_vm_had_come_before(tmp_path: Path) -> None:
    """What is remembered of a loss is what a check made now says."""
    world = SimWorld(tmp_path, *(host("T4", "T4", name=f"h{n}") for n in range(4)))
    world.engine.refresh()
    wanted = [vm(f"vm-{n}", ("T4-4Q", "T4-8Q")[n % 2]) for n in range(16)]
    decided = world.engine.place(build_fleet(world.engine.view()), wanted)
    check = FailoverCheck(world.engine.view(), ONE)
    for count, each in enumerate(decided, 1):
        assert isinstance(each, Placed)
        check.add(each)
        remembered = list(check.losses())
        fresh = FailoverCheck(world.engine.view(), ONE)
        for other in decided[:count]:
            assert isinstance(other, Placed)
            fresh.add(other)
        assert remembered == list(fresh.losses())
    world.close()
