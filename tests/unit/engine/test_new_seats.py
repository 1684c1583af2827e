"""Other GPU parts or CPUs for a VM that stays: the same disks, UUID and host, by its file alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.drift.drift_survey import survey
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.model.apply_plan import Plan
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict, NoPlacement, NoSeatLeft, QuotaExceeded, VgpumgrError
from vgpumgr.model.licence import Edition, Licence
from vgpumgr.model.quota import Quota
from vgpumgr.model.vm import VmRecord, VmSpec, VmState
from vgpumgr.model.vm_devices import DiskSpec

DISK = DiskSpec(size_bytes=1 << 30)
SMALL, LARGE = (vm("a", each, disks=(DISK,)) for each in ("T4-4Q", "T4-8Q"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4", "T4", cpus=8, memory_mib=8192))
    made.engine.refresh()
    made.apply(SMALL)
    yield made
    made.close()


def change(world: SimWorld, *specs: VmSpec) -> Plan:
    planned, outcome = world.engine.apply(specs, restart=True)
    outcome.raise_for_failure()
    return planned


def assert_sound(world: SimWorld) -> VmRecord:
    """It runs with exactly what the ledger says that it holds, and nothing else is on the host."""
    [it] = world.ledger.vms()
    held = world.ledger.allocations()
    facts = world.facts()
    [domain] = facts.domains
    assert (it.state, it.moving_to) == (VmState.ACTIVE, None)
    assert set(domain.devices) == {each.device for each in held}
    mdevs = {each.device for each in held if each.framework == "mdev"}
    assert {each.uuid for each in facts.mdevs} == mdevs
    assert {claim.allocation for claim in facts.claims} == {each.id for each in held}
    assert sorted(each.profile for each in held) == sorted(each.profile for each in it.spec.gpus)
    assert survey(world.engine).drifts == ()
    assert not world.ledger.operations(open_only=True)
    return it


def test_another_profile_next_to_the_one_that_it_has(world: SimWorld) -> None:
    before = world.ledger.vm("a")
    planned = change(world, replace(LARGE, memory_mib=1024, labels={"team": "cad"}))
    [action] = planned.actions
    assert action.needs_restart and action.details[:3] == (
        *("memory: 512MiB → 1GiB", "gpus: T4-4Q → T4-8Q", "labels: none → team=cad"),
    )
    after = assert_sound(world)
    assert (after.id, after.host, after.volumes) == (before.id, before.host, before.volumes)
    assert after.generation > before.generation
    assert (after.spec.memory_mib, after.spec.labels) == (1024, {"team": "cad"})
    assert world.facts().domains[0].state is DomainState.RUNNING
    assert change(world, after.spec).changes == 0


def test_more_and_fewer_parts(world: SimWorld) -> None:
    change(world, vm("a", "T4-4Q", "T4-4Q", disks=(DISK,)))
    assert len(assert_sound(world).spec.gpus) == 2
    change(world, vm("a", disks=(DISK,)))
    assert_sound(world)
    assert world.ledger.allocations() == ()
    change(world, SMALL)
    assert_sound(world)


def test_cpus_are_pinned_and_let_go(world: SimWorld) -> None:
    change(world, replace(SMALL, pin_cpus=True))
    assert len(assert_sound(world).cpus) == 1
    change(world, SMALL)
    assert assert_sound(world).cpus == ()


def test_one_that_is_off_stays_off(world: SimWorld) -> None:
    world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()
    planned, outcome = world.engine.apply([LARGE])
    outcome.raise_for_failure()
    assert not planned.actions[0].needs_restart
    assert_sound(world)
    assert world.facts().domains[0].state is DomainState.SHUTOFF
    world.engine.start(["a"]).raise_for_failure()
    assert_sound(world)


def test_nothing_is_stopped_that_was_not_allowed(world: SimWorld) -> None:
    with pytest.raises(Conflict, match="the change needs a stop of a"):
        world.engine.apply([LARGE])
    assert assert_sound(world).spec == SMALL


def test_its_own_parts_in_the_way_are_released_first(world: SimWorld) -> None:
    whole = vm("a", "T4-16Q", "T4-16Q", disks=(DISK,))
    before = world.ledger.vm("a")
    [action] = change(world, whole).actions
    assert action.releases_first and action.details[-1] == "its own GPU parts are released first"
    after = assert_sound(world)
    assert (after.id, after.volumes, len(after.spec.gpus)) == (before.id, before.volumes, 2)
    assert world.facts().domains[0].state is DomainState.RUNNING
    change(world, SMALL)
    assert assert_sound(world).spec == SMALL


def test_a_whole_gpu_of_its_own_in_the_way_is_said_with_the_commands(world: SimWorld) -> None:
    one = vm("a", "passthrough", disks=(DISK,))
    change(world, one)
    both = vm("a", "passthrough", "passthrough", disks=(DISK,))
    with pytest.raises(NoPlacement, match="a cannot be placed") as caught:
        change(world, both)
    assert caught.value.next.startswith("vgpumgr vm stop a --release-gpu, then ")
    assert assert_sound(world).spec == one
    world.engine.shelve(["a"], StopManner(force=True)).raise_for_failure()
    change(world, both)
    world.engine.start(["a"]).raise_for_failure()
    assert len(assert_sound(world).spec.gpus) == 2


def test_what_fits_in_no_way_has_no_such_commands(world: SimWorld) -> None:
    with pytest.raises(NoPlacement) as caught:
        change(world, vm("a", "T4-16Q", "T4-16Q", "T4-16Q", disks=(DISK,)))
    assert "release-gpu" not in caught.value.next


def test_a_quota_counts_what_it_gets_instead_of_what_it_has(world: SimWorld) -> None:
    world.ledger.set_quota(Quota(tenant="default", gpus=1, gpu_memory_mib=8192))
    change(world, LARGE)
    assert_sound(world)
    with pytest.raises(QuotaExceeded):
        change(world, vm("a", "T4-4Q", "T4-4Q", disks=(DISK,)))
    assert assert_sound(world).spec == LARGE


def test_a_licence_seat_counts_for_what_it_gets_instead_of_what_it_has(world: SimWorld) -> None:
    world.ledger.set_licence(Licence(edition=Edition.VWS, seats=1))
    change(world, LARGE)
    assert assert_sound(world).spec == LARGE
    with pytest.raises(NoSeatLeft):
        change(world, LARGE, replace(SMALL, name="b"))


def grown(spec: VmSpec) -> VmSpec:
    """The same with a larger disk and one more."""
    more = DiskSpec(size_bytes=3 << 30, format="raw")
    return replace(spec, disks=(DiskSpec(size_bytes=2 << 30), more))


def capacities(world: SimWorld) -> list[int]:
    storage = world.hosts.open(world.ledger.host("h1")).storage
    found = [storage.look(*each) for each in world.ledger.vm("a").volumes]
    assert len(storage.volumes("default")) == len(found) + 1, "the image, and its own"
    return [each.capacity_bytes for each in found if each]


def test_disks_grow_and_more_come(world: SimWorld) -> None:
    [held] = world.ledger.allocations()
    [volume] = world.ledger.vm("a").volumes
    [action] = change(world, grown(SMALL)).actions
    assert action.needs_restart
    after = assert_sound(world)
    assert capacities(world) == [2 << 30, 3 << 30]
    assert after.volumes == (volume, ("default", f"a-{after.id[:8]}-1.raw"))
    assert world.ledger.allocations() == (held,), "its GPU part is the one that it had"
    assert change(world, grown(SMALL)).changes == 0
    change(world, replace(grown(LARGE), disks=(*grown(LARGE).disks, DISK)))
    assert capacities(world) == [2 << 30, 3 << 30, 1 << 30]
    assert_sound(world)
    world.delete("a")
    assert len(world.hosts.open(world.ledger.host("h1")).storage.volumes("default")) == 1


def test_a_disk_grows_under_a_guest_that_runs(world: SimWorld) -> None:
    larger = replace(SMALL, disks=(replace(DISK, size_bytes=2 << 30),))
    domains = world.hosts.open(world.ledger.host("h1")).domains
    planned, outcome = world.engine.apply([larger])
    outcome.raise_for_failure()
    [action] = planned.actions
    assert not action.needs_restart
    assert domains.disk_bytes("a", "vda") == 2 << 30
    assert assert_sound(world).spec == larger
    look = domains.look("a")
    assert look is not None and look.ownership is not None
    assert look.state == "running" and look.ownership.generation == world.ledger.vm("a").generation
    assert world.engine.apply([larger])[0].changes == 0


def test_a_disk_that_does_not_grow_leaves_all_as_it_was(world: SimWorld) -> None:
    world.sim.inject("h1", ["refuse", "domains.grow_disk", "EIO", "1"])
    larger = replace(SMALL, disks=(replace(DISK, size_bytes=2 << 30),))
    with pytest.raises(VgpumgrError):
        world.engine.apply([larger])[1].raise_for_failure()
    assert assert_sound(world).spec == SMALL


@pytest.mark.parametrize(
    "disks", [(), (DiskSpec(size_bytes=1 << 29),), (replace(DISK, format="raw"), DISK)]
)
def test_no_disk_is_cut_dropped_or_exchanged(world: SimWorld, disks: tuple[DiskSpec, ...]) -> None:
    with pytest.raises(Conflict, match="a cannot change disks in place"):
        change(world, replace(SMALL, disks=disks))
    assert assert_sound(world).spec == SMALL


def test_a_shelved_vm_is_started_before_its_disks_change(world: SimWorld) -> None:
    world.engine.shelve(["a"], StopManner(force=True)).raise_for_failure()
    with pytest.raises(Conflict) as caught:
        change(world, grown(SMALL))
    assert caught.value.next.startswith("vgpumgr vm start a, then ")


def test_a_refused_volume_leaves_all_as_it_was(world: SimWorld) -> None:
    world.sim.inject("h1", ["refuse", "storage.create", "ENOSPC", "9"])
    _, outcome = world.engine.apply([grown(LARGE)], restart=True)
    with pytest.raises(VgpumgrError):
        outcome.raise_for_failure()
    assert assert_sound(world).spec == SMALL
    assert capacities(world) == [1 << 30]


def test_a_disk_larger_than_its_pool_is_refused(world: SimWorld) -> None:
    huge = replace(SMALL, disks=(DiskSpec(size_bytes=900 << 40),))
    with pytest.raises(Conflict, match="a cannot have a disk of 900TiB"):
        change(world, huge)
    with pytest.raises(Conflict):
        world.engine.plan([huge])
    assert capacities(world) == [1 << 30]


def test_a_disk_that_grows_beyond_what_is_free_of_its_pool_is_refused(world: SimWorld) -> None:
    more = (*SMALL.disks, DiskSpec(size_bytes=9 << 40), DiskSpec(size_bytes=9 << 40))
    with pytest.raises(Conflict, match="a cannot have disks of 18TiB") as caught:
        change(world, replace(SMALL, disks=more))
    assert caught.value.why.endswith("free")
    assert capacities(world) == [1 << 30]


def test_one_that_was_switched_off_by_others_runs_with_its_new_part(world: SimWorld) -> None:
    world.sim.inject("h1", ["destroy", "a"])
    change(world, LARGE)
    assert_sound(world)
    assert world.facts().domains[0].state is DomainState.RUNNING


def test_the_trail_tells_of_the_change(world: SimWorld) -> None:
    change(world, LARGE)
    events = [each.event for each in world.ledger.audit() if each.vm == "a"]
    assert "vm.changed" in events and "vm.moved" not in events


def test_a_refused_device_leaves_all_as_it_was(world: SimWorld) -> None:
    world.sim.inject("h1", ["refuse", "mdev_create", "EIO", "1000"])
    _, outcome = world.engine.apply([LARGE], restart=True)
    with pytest.raises(VgpumgrError):
        outcome.raise_for_failure()
    assert assert_sound(world).spec == SMALL
    assert world.facts().domains[0].state is DomainState.RUNNING


def killed(made: SimWorld, wanted: VmSpec, at: int, *, after: bool) -> bool:
    """Whether a change was killed at that write of the ledger; it was finished then, or undone
    where the number is odd.
    """
    mortal, died = Mortal(made.ledger, at, after=after), False
    try:
        replace(made.engine, ledger=mortal).apply([wanted], restart=True)  # type: ignore[arg-type]
    except Killed:
        died = True
        made.restart()
    if at % 2:
        for each in made.ledger.operations(open_only=True):
            made.engine.undo(each.id)
        for each in made.ledger.operations(open_only=True):
            made.engine.resume(each.id)  # it had its new GPU part already
    else:
        change(made, wanted)
    return died


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_change_killed_anywhere_is_finished_or_undone(tmp_path: Path, after: bool) -> None:
    wanted = grown(LARGE)
    for at in count(1):
        (tmp_path / str(at)).mkdir()
        made = SimWorld(tmp_path / str(at), host("T4", "T4", cpus=8, memory_mib=8192))
        made.engine.refresh()
        made.apply(SMALL)
        died = killed(made, wanted, at, after=after)
        assert assert_sound(made).spec in ((SMALL, wanted) if at % 2 else (wanted,))
        made.close()
        if not died:
            break
    assert at > 5
