"""Snapshots of a VM's disks: taken off and running, reverted to, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.drift.drift_survey import survey
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.model.apply_plan import Plan
from vgpumgr.model.errors import Conflict, NotFound, StillRunning, VgpumgrError
from vgpumgr.model.snapshot import MOST_SNAPSHOTS, DiskMoment
from vgpumgr.model.vm import VmRecord, VmState
from vgpumgr.model.vm_devices import CloudInit, DiskMode, DiskSpec

MIB = 1 << 20
DISKS = (DiskSpec(size_bytes=MIB), DiskSpec(size_bytes=2 * MIB))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4"))
    made.engine.refresh()
    seed = CloudInit(user_data="#cloud-config\n")
    made.apply(vm("a", "T4-8Q", disks=DISKS, cloud_init=seed, agent=True))
    yield made
    made.close()


def a(world: SimWorld) -> VmRecord:
    return world.ledger.vm("a")


def volumes(world: SimWorld) -> set[str]:
    return {
        each.name for each in world.hosts.open(world.ledger.host("h1")).storage.volumes("default")
    }


def path(world: SimWorld, number: int = 0) -> str:
    storage = world.hosts.open(world.ledger.host("h1")).storage
    found = storage.look(*a(world).volumes[number])
    assert found is not None
    return found.path


def write(world: SimWorld, text: bytes) -> None:
    """The guest writes to both its disks."""
    storage = world.sim.host("h1").storage
    for number in range(2):
        storage.guest_writes(path(world, number), text)


def read(world: SimWorld) -> list[bytes]:
    storage = world.sim.host("h1").storage
    return [storage.content(path(world, number)).data.rstrip(b"\0") for number in range(2)]


def stop(world: SimWorld) -> None:
    world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()


def take(world: SimWorld, name: str, *, freeze: bool = False) -> None:
    world.engine.take_snapshot("a", name, freeze=freeze).raise_for_failure()


def revert(world: SimWorld, name: str) -> None:
    world.engine.revert("a", name).raise_for_failure()


def test_what_was_on_the_disks_comes_back(world: SimWorld) -> None:
    write(world, b"one")
    stop(world)
    take(world, "s1")
    assert a(world).state is VmState.ACTIVE and a(world).moving_to is None
    assert read(world) == [b"one", b"one"]
    world.engine.start(["a"]).raise_for_failure()
    write(world, b"two")
    assert read(world) == [b"two", b"two"]
    stop(world)
    revert(world, "s1")
    assert read(world) == [b"one", b"one"]
    world.engine.start(["a"]).raise_for_failure()
    assert survey(world.engine).drifts == ()


def test_a_running_vm_goes_on_in_other_files(world: SimWorld) -> None:
    write(world, b"one")
    before = a(world)
    take(world, "s1", freeze=True)
    after = a(world)
    [made] = after.snapshots
    assert (made.moment, made.volumes) == (DiskMoment.FROZEN, before.volumes[:2])
    assert after.volumes[2] == before.volumes[2] and set(after.volumes[:2]).isdisjoint(made.volumes)
    running = world.hosts.open(world.ledger.host("h1")).domains
    for xml in (running.live_xml("a"), running.xml("a")):
        assert after.volumes[0][1] in xml and before.volumes[0][1] not in xml.replace(
            after.volumes[0][1], ""
        )
    write(world, b"two")
    take(world, "s2")
    assert [each.moment for each in a(world).snapshots] == [DiskMoment.FROZEN, DiskMoment.RUNNING]
    assert [each.over for each in a(world).snapshots] == ["", "s1"]
    assert survey(world.engine).drifts == ()


def test_a_vm_that_runs_is_stopped_for_a_revert_where_that_is_allowed(world: SimWorld) -> None:
    write(world, b"one")
    take(world, "s1")
    write(world, b"two")
    with pytest.raises(StillRunning, match="a runs") as caught:
        revert(world, "s1")
    assert "vgpumgr vm snapshot revert a s1 --restart" in caught.value.next
    world.engine.revert("a", "s1", stop=StopManner()).raise_for_failure()
    assert read(world) == [b"one", b"one"]
    assert [each.state for each in world.facts().domains] == ["running"]


def test_newer_snapshots_stay_and_can_be_come_back_to(world: SimWorld) -> None:
    stop(world)
    write(world, b"one")
    take(world, "s1")
    write(world, b"two")
    take(world, "s2")
    write(world, b"three")
    revert(world, "s1")
    assert read(world) == [b"one", b"one"]
    write(world, b"four")
    revert(world, "s2")
    assert read(world) == [b"two", b"two"]
    revert(world, "s1")
    assert read(world) == [b"one", b"one"]


def test_what_a_revert_leaves_is_deleted(world: SimWorld) -> None:
    before = volumes(world)
    stop(world)
    take(world, "s1")
    assert len(volumes(world)) == len(before) + 2
    revert(world, "s1")
    assert len(volumes(world)) == len(before) + 2
    world.delete("a")
    assert not {each for each in volumes(world) if each.startswith("a-")}


def test_a_snapshot_that_nothing_is_laid_over_is_deleted(world: SimWorld) -> None:
    stop(world)
    write(world, b"one")
    take(world, "s1")
    take(world, "s2")
    revert(world, "s1")
    there = len(volumes(world))
    world.engine.delete_snapshot("a", "s2").raise_for_failure()
    assert [each.name for each in a(world).snapshots] == ["s1"]
    assert len(volumes(world)) == there - 2
    assert read(world) == [b"one", b"one"]


def test_names_are_once_and_there_is_a_most(world: SimWorld) -> None:
    stop(world)
    for number in range(MOST_SNAPSHOTS):
        take(world, f"s{number}")
    with pytest.raises(Conflict, match=f"has {MOST_SNAPSHOTS} snapshots"):
        take(world, "more")
    with pytest.raises(Conflict, match="has a snapshot s3 already"):
        take(world, "s3")
    with pytest.raises(NotFound, match="a has no snapshot other"):
        revert(world, "other")


def test_a_guest_without_an_agent_is_not_frozen(world: SimWorld) -> None:
    world.apply(vm("b", disks=DISKS))
    with pytest.raises(Conflict, match="no guest agent"):
        world.engine.take_snapshot("b", "s", freeze=True)


def test_a_raw_disk_cannot_be_kept(world: SimWorld) -> None:
    world.apply(vm("b", disks=(DiskSpec(size_bytes=MIB, format="raw"),)), vm("c"))
    with pytest.raises(Conflict) as caught:
        world.engine.take_snapshot("b", "s")
    assert "vda is raw" in caught.value.why
    with pytest.raises(Conflict) as caught:
        world.engine.take_snapshot("c", "s")
    assert "no disks" in caught.value.why


def test_a_vm_with_snapshots_gets_no_more_disks(world: SimWorld) -> None:
    take(world, "s1")
    more = replace(a(world).spec, disks=(*DISKS, DiskSpec(size_bytes=MIB)))
    with pytest.raises(Conflict, match="cannot have more disks") as caught:
        world.engine.apply([more], restart=True)
    assert "brought back together" in caught.value.why
    larger = replace(a(world).spec, disks=(replace(DISKS[0], size_bytes=4 * MIB), DISKS[1]))
    world.engine.apply([larger], restart=True)[1].raise_for_failure()


def test_nothing_is_laid_over_a_disk_that_is_written_to(world: SimWorld) -> None:
    _, name = a(world).volumes[0]
    over = DiskSpec(size_bytes=MIB, mode=DiskMode.OVERLAY, image=name)
    with pytest.raises(Conflict, match="laid over a disk of a") as caught:
        world.apply(vm("b", disks=(over,)))
    assert caught.value.why == "a writes to it"
    take(world, "s1")
    world.apply(vm("b", disks=(over,)))
    with pytest.raises(Conflict, match="disks of b are laid over a snapshot of a"):
        world.engine.delete_snapshot("a", "s1")


def test_a_snapshot_that_goes_meanwhile_is_not_cloned(world: SimWorld) -> None:
    """Between the plan of the clone and its reservation; the other order is refused."""
    stop(world)
    take(world, "s1")
    spec = world.engine.clone_spec(a(world), "b", "s1")

    def meanwhile(_: Plan) -> None:
        if a(world).snapshots.find("s1"):
            world.engine.delete_snapshot("a", "s1").raise_for_failure()

    with pytest.raises((Conflict, NotFound)):
        world.engine.apply([spec], show=meanwhile)
    assert [each.name for each in world.ledger.vms()] == ["a"]


def test_memory_is_not_kept(world: SimWorld) -> None:
    with pytest.raises(Conflict) as caught:
        world.engine.take_snapshot("a", "s", memory=True)
    assert "T4-8Q" in caught.value.why


def test_a_refused_change_over_leaves_all_as_it_was(world: SimWorld) -> None:
    before, there = a(world), volumes(world)
    world.sim.inject("h1", ["refuse", "domains.switch_disks", "EIO", "1"])
    with pytest.raises(VgpumgrError):
        take(world, "s1")
    after = a(world)
    assert (after.volumes, after.snapshots, after.state) == (
        before.volumes,
        before.snapshots,
        VmState.ACTIVE,
    )
    assert volumes(world) == there
    assert survey(world.engine).drifts == ()
    take(world, "s1")


def test_another_file_below_a_volume_is_no_guess(world: SimWorld) -> None:
    """A file that is laid over something else than the ledger says is left as it is."""
    stop(world)
    take(world, "s1")
    take(world, "s2")
    storage = world.sim.host("h1").storage
    storage.lay_over(path(world), "")
    with pytest.raises(VgpumgrError) as caught:
        world.engine.delete_snapshot("a", "s2").raise_for_failure()
    assert "laid over nothing" in str(caught.value) + str(caught.value.why)
    assert len(a(world).snapshots.snapshots) == 2


def test_a_tpm_whose_state_would_be_left_out_is_refused(world: SimWorld) -> None:
    world.apply(vm("b", disks=DISKS, tpm=True))
    with pytest.raises(Conflict) as caught:
        world.engine.take_snapshot("b", "s")
    assert "TPM has a state of its own" in caught.value.why
