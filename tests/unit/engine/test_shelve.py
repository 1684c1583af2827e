"""VMs that give back what they hold, keep their disks, and come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.drift.drift_survey import survey
from vgpumgr.engine.heal.remedy import DriftSelection
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.errors import Conflict, NoPlacement
from vgpumgr.model.quota import Quota
from vgpumgr.model.vm import VmState
from vgpumgr.model.vm_devices import DiskSpec

NOW = StopManner(force=True, timeout_s=5.0)
DISK = DiskSpec(size_bytes=1 << 30)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4", cpus=8, memory_mib=8192))
    made.engine.refresh()
    made.apply(vm("a", "T4-16Q", vcpus=6, disks=(DISK,)))
    yield made
    made.close()


def shelve(world: SimWorld, *names: str) -> None:
    world.engine.shelve(names, NOW).raise_for_failure()


def test_its_gpu_part_its_cpus_and_its_memory_are_anothers_and_its_disks_stay(
    world: SimWorld,
) -> None:
    [volume] = world.ledger.vm("a").volumes
    shelve(world, "a")
    shelved = world.ledger.vm("a")
    assert (shelved.state, shelved.running, shelved.volumes) == (VmState.SHELVED, False, (volume,))
    assert world.ledger.allocations() == ()
    assert world.facts().mdevs == ()
    assert "<hostdev" not in world.engine.domain_xml("a")
    assert survey(world.engine).drifts == ()
    world.apply(vm("b", "T4-16Q", vcpus=6))
    with pytest.raises(NoPlacement):
        world.engine.start(["a"])
    assert world.ledger.vm("a").state is VmState.SHELVED


def test_it_comes_back_with_its_disks_and_other_devices(world: SimWorld) -> None:
    before, [held] = world.ledger.vm("a"), world.ledger.allocations()
    shelve(world, "a")
    world.engine.start(["a"]).raise_for_failure()
    after, [now] = world.ledger.vm("a"), world.ledger.allocations()
    assert (after.id, after.volumes, after.state) == (before.id, before.volumes, VmState.ACTIVE)
    assert now.id != held.id
    assert world.facts().domains[0].devices == (now.device,)
    assert survey(world.engine).drifts == ()


def test_a_start_that_its_host_refuses_leaves_it_shelved(world: SimWorld) -> None:
    shelve(world, "a")
    world.sim.hosts["h1"].faults.inject(["refuse", "domains.start", "EIO", "1"])
    outcome = world.engine.start(["a"])
    assert [str(each.state) for each in outcome.vms] == ["undone"]
    assert world.ledger.vm("a").state is VmState.SHELVED
    assert (world.ledger.allocations(), world.facts().mdevs) == ((), ())
    world.engine.start(["a"]).raise_for_failure()


def test_it_is_deleted_with_its_disks_and_does_nothing_else(world: SimWorld) -> None:
    shelve(world, "a")
    shelve(world, "a")
    with pytest.raises(Conflict, match="a is shelved"):
        world.engine.reboot(["a"], force=True)
    with pytest.raises(Conflict, match="a is shelved"):
        world.engine.migrate("a", "h1")
    world.delete("a")
    assert world.ledger.vms() == ()
    assert world.facts().domains == ()


def test_it_counts_in_no_quota_until_it_comes_back(world: SimWorld) -> None:
    shelve(world, "a")
    world.ledger.set_quota(Quota(tenant="default", vcpus=6))
    world.apply(vm("c", vcpus=2))
    with pytest.raises(NoPlacement, match="quota of tenant default"):
        world.engine.start(["a"])
    world.delete("c")
    world.engine.start(["a"]).raise_for_failure()


@pytest.mark.parametrize("way", ["as the line says", "heal"])
def test_one_that_somebody_started_by_hand_is_named_and_ends(world: SimWorld, way: str) -> None:
    shelve(world, "a")
    world.sim.hosts["h1"].domains.start("a")
    [drift] = survey(world.engine).drifts
    assert (drift.kind, drift.vm, drift.found) == (DriftKind.POWER, "a", "running")
    assert "shelved" in drift.text
    assert drift.next.startswith("vgpumgr vm stop a")
    if way == "heal":
        plan = world.engine.heal_plan(DriftSelection())
        assert [each.text for each in plan.remedies] == ["ask it to power off"]
        world.engine.heal(DriftSelection())
    else:
        world.engine.stop_vms(["a"], force=False, timeout_s=5.0).raise_for_failure()
    assert survey(world.engine).drifts == ()
    assert world.ledger.vm("a").state is VmState.SHELVED
