"""What placement may hand out: the last probe, less what we hold and what foreigners use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeHost, FakeParent, mbochs, t4, t4_parent
from tests.world import World, vm
from vgpumgr.engine.capacity.profile_capacity import capacity
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import NoPlacement
from vgpumgr.model.gpu import GpuFacts, VendorVgpu, VfFacts
from vgpumgr.model.host import ClaimFacts, NumaNode, UnknownPart
from vgpumgr.model.supply import GpuSupply, HostSupply, Offer
from vgpumgr.model.vm import NumaPolicy
from vgpumgr.model.vm_devices import DiskSpec
from vgpumgr.placement.fleet_room import FleetRoom

GPU = "0000:41:00.0"
UUID = "11111111-1111-1111-1111-111111111111"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def supply(world: World) -> HostSupply:
    world.engine.refresh()
    return build_fleet(world.engine.view()).hosts[0]


def gpu(world: World) -> GpuSupply:
    return supply(world).gpus[0]


def offer(found: GpuSupply, profile: str) -> Offer:
    return next(each for each in found.offers if each.profile == profile)


def alone(tmp_path: Path, facts: GpuFacts, parent: FakeParent, **fields: object) -> World:
    return World(tmp_path, FakeHost(gpus=[facts], parents=[parent], **fields))  # type: ignore[arg-type]


def test_an_empty_t4_offers_all_its_slots(world: World) -> None:
    found = gpu(world)
    assert (found.units, found.free_slots) == (16, tuple(range(16)))
    assert (found.same_size, found.blocked, found.passthrough_blocked) == (True, "", "")
    assert offer(found, "T4-4Q").units == 4
    assert offer(found, "passthrough").units == 16


@pytest.mark.parametrize(("vfs", "blocked"), [(1, True), (0, False)])
def test_vgpus_on_vfs_wait_for_nvml_outside_the_catalogue(
    tmp_path: Path, vfs: int, blocked: bool
) -> None:
    """Whether it is in MIG mode is not known; without VFs there are none."""
    vf = VfFacts(number=0, address="0000:41:00.4", vendor=VendorVgpu(creatable=(1,), type_id=0))
    facts = replace(
        t4(), model="10de:2324", mdev_types=(), vfs=(vf,) * vfs, vf_types={"1": "NVIDIA X9-4C"}
    )
    world = World(tmp_path, FakeHost(gpus=[facts], parents=[]))
    world.host.unknown = (UnknownPart(part=f"nvml {GPU}", why="mig: NVML code 999"),)
    why = "its MIG or mixed-size mode could not be read: mig: NVML code 999"
    assert gpu(world).blocked == (why if blocked else "")
    world.close()


def test_what_we_hold_is_not_free(world: World) -> None:
    world.engine.apply([vm("web", "T4-4Q")])
    found = gpu(world)
    assert found.free_slots == tuple(range(4, 16))
    (usage,) = found.usages
    assert (usage.vm, usage.profile, usage.units) == ("web", "T4-4Q", 4)


def test_what_a_stopped_vm_holds_is_not_free(world: World) -> None:
    world.engine.apply([vm("web", "T4-4Q")])
    world.engine.stop_vms(["web"], force=True, timeout_s=1)
    world.host.reboot()
    assert len(gpu(world).free_slots) == 12


def test_a_foreign_mdev_takes_its_size(world: World) -> None:
    world.host.foreign_mdev(UUID, GPU, "nvidia-231")
    found = gpu(world)
    assert len(found.free_slots) == 14
    assert [usage.foreign for usage in found.usages] == [f"mdev {UUID}"]


def claimed(world: World, fleet: str) -> GpuSupply:
    """With the claim of an mdev that is not there: a boot took it."""
    world.engine.refresh()
    view = world.engine.view()
    assert view.hosts[0].facts is not None
    claim = ClaimFacts(
        unit=f"mdev-{UUID}",
        fleet=fleet,
        epoch=1,
        allocation="a",
        generation=1,
        vm="theirs",
        wanted={"kind": "mdev", "parent": GPU, "type": "nvidia-231", "uuid": UUID},
    )
    host = replace(view.hosts[0], facts=replace(view.hosts[0].facts, claims=(claim,)))
    return build_fleet(replace(view, hosts=(host,))).hosts[0].gpus[0]


def test_an_mdev_that_another_fleet_brings_back_after_a_boot_takes_its_size(world: World) -> None:
    found = claimed(world, "theirs")
    assert len(found.free_slots) == 14
    assert [usage.foreign for usage in found.usages] == ["claim of fleet theirs"]
    # Of our own the ledger knows.
    assert claimed(world, world.ledger.fleet_id()).usages == ()


def test_a_foreign_mdev_fixes_the_size(world: World) -> None:
    world.host.foreign_mdev(UUID, GPU, "nvidia-231")
    with pytest.raises(NoPlacement, match="web cannot be placed") as caught:
        world.engine.apply([vm("web", "T4-4Q")])
    assert "same-size" in caught.value.why
    world.engine.apply([vm("web", "T4-2Q")])[1].raise_for_failure()


@pytest.mark.parametrize("state", [DomainState.RUNNING, DomainState.SHUTOFF])
def test_a_foreign_domain_with_the_gpu_blocks_it(world: World, state: DomainState) -> None:
    world.host.foreign_domain("theirs", state=state, devices=[GPU])
    found = gpu(world)
    assert found.free_slots == ()
    assert [usage.foreign for usage in found.usages] == ["domain theirs"]


def test_a_claim_of_another_fleet_blocks_the_gpu(world: World) -> None:
    world.host.claims[f"pci-{GPU}"] = {
        "fleet": "other",
        "allocation": "x",
        "generation": 1,
        "vm": "y",
    }
    assert gpu(world).free_slots == ()


def test_a_foreign_domain_uses_memory_and_cpus_while_it_runs(world: World) -> None:
    before = supply(world)
    world.host.foreign_domain("theirs")
    after = supply(world)
    assert before.free_memory_mib - after.free_memory_mib == 2048
    assert before.free_vcpus - after.free_vcpus == 2
    world.host.foreign_domain("theirs", state=DomainState.SHUTOFF)
    assert supply(world) == replace(before, foreign_domains=frozenset({"theirs"}))


def test_a_vm_of_ours_is_counted_once_whether_it_runs_or_not(world: World) -> None:
    before = supply(world)
    world.engine.apply([vm("web")])
    assert before.free_memory_mib - supply(world).free_memory_mib == 2048
    world.engine.stop_vms(["web"], force=True, timeout_s=1)
    assert before.free_memory_mib - supply(world).free_memory_mib == 2048


def test_a_cordoned_host_takes_nothing(world: World) -> None:
    world.engine.refresh()
    world.ledger.update_host(replace(world.ledger.host("h1"), cordoned=True))
    assert supply(world).blocked == "cordoned"


def test_a_host_that_was_never_probed_takes_nothing(world: World) -> None:
    assert build_fleet(world.engine.view()).hosts[0].blocked == "never probed"


def test_an_unreachable_host_takes_nothing_until_it_answers(world: World) -> None:
    world.engine.refresh()
    world.host.down = True
    assert supply(world).blocked == "not reached: host h1 does not answer"
    world.host.down = False
    assert supply(world).blocked == ""


@pytest.mark.parametrize("part", ["libvirt", "mdevs", "claims", f"mdevs {UUID}", "claims mdev-1"])
def test_a_part_that_could_not_be_read_blocks_the_host(world: World, part: str) -> None:
    world.host.unknown = (UnknownPart(part=part, why="no permission"),)
    assert supply(world).blocked == f"could not read {part}: no permission"


def test_a_part_of_no_matter_blocks_nothing(world: World) -> None:
    world.host.unknown = (UnknownPart(part="nvml", why="no library"),)
    assert supply(world).blocked == ""


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"iommu_group": None}, "the IOMMU is off"),
        ({"boot_vga": True}, "it is the host's console"),
        ({"group_devices": ()}, "could not be read"),
        ({"group_devices": (GPU, "0000:40:01.0")}, "also holds 0000:40:01.0"),
    ],
)
def test_what_forbids_passthrough_does_not_forbid_vgpus(
    tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    world = alone(tmp_path, t4(0, **changes), t4_parent())
    found = gpu(world)
    assert says in found.passthrough_blocked
    with pytest.raises(NoPlacement) as caught:
        world.engine.apply([vm("web", "passthrough")])
    assert says in caught.value.why
    world.engine.apply([vm("web", "T4-4Q")])[1].raise_for_failure()
    world.close()


def test_with_the_iommu_off_no_gpu_is_given_whole(tmp_path: Path) -> None:
    world = World(tmp_path, FakeHost(iommu=False))
    assert gpu(world).passthrough_blocked == "the IOMMU is off"
    world.close()


def test_functions_of_the_same_slot_are_no_strangers(tmp_path: Path) -> None:
    audio = "0000:41:00.1"
    world = alone(tmp_path, t4(0, group_devices=(GPU, audio)), t4_parent())
    assert gpu(world).passthrough_blocked == ""
    world.engine.apply([vm("web", "passthrough")])[1].raise_for_failure()
    assert world.host.drivers[audio] == "vfio-pci"
    assert world.ledger.allocations()[0].companions == (audio,)
    world.close()


def test_the_drivers_counts_hold_while_they_are_fresh(world: World) -> None:
    assert gpu(world).available["nvidia-232"] == 4
    world.engine.apply([vm("web", "T4-4Q")])
    assert gpu(world).available["nvidia-232"] == 3


def test_driver_counts_from_before_our_own_work_are_ignored(world: World) -> None:
    """Apply does not probe afterwards: the counts of before would refuse what fits."""
    world.engine.apply([vm("web", "T4-4Q")])
    assert build_fleet(world.engine.view()).hosts[0].gpus[0].available == {}


def test_pinned_cpus_and_huge_pages_of_our_vms_are_taken(tmp_path: Path) -> None:
    node = NumaNode(id=0, cpus=tuple(range(8)), memory_mib=32768, hugepages_free={1048576: 8})
    world = World(tmp_path, FakeHost(numa=(node,), cpus=8))
    spec = vm("web", pin_cpus=True, hugepage_kib=1048576, numa=NumaPolicy.REQUIRE)
    world.engine.apply([spec])[1].raise_for_failure()
    world.engine.stop_vms(["web"], force=True, timeout_s=1)
    found = supply(world).numa[0]
    assert found.free_cpus == tuple(range(2, 8))
    assert found.free_hugepages == {1048576: 6}
    assert found.free_memory_mib == 32768
    world.close()


def test_memory_set_aside_for_huge_pages_is_not_offered_as_ordinary_memory(tmp_path: Path) -> None:
    pages = {"hugepages_free": {1048576: 8}, "hugepages_total": {1048576: 8}}
    node = NumaNode(id=0, cpus=tuple(range(8)), memory_mib=32768, **pages)
    world = World(tmp_path, FakeHost(numa=(node,), cpus=8))
    without = World(tmp_path / "b", FakeHost(numa=(replace(node, hugepages_total={}),), cpus=8))
    assert supply(world).numa[0].free_memory_mib == 32768 - 8192
    assert supply(without).free_memory_mib - supply(world).free_memory_mib == 8192
    world.close()
    without.close()


def test_huge_pages_of_a_running_vm_are_not_counted_twice(tmp_path: Path) -> None:
    node = NumaNode(id=0, cpus=tuple(range(8)), memory_mib=32768, hugepages_free={1048576: 8})
    world = World(tmp_path, FakeHost(numa=(node,), cpus=8))
    world.engine.apply([vm("web", hugepage_kib=1048576)])
    world.host.numa = (replace(node, hugepages_free={1048576: 6}),)
    assert supply(world).numa[0].free_hugepages == {1048576: 6}
    world.close()


def test_the_budget_of_an_unknown_parent_is_learned_while_it_is_empty(tmp_path: Path) -> None:
    world = alone(tmp_path, *mbochs())
    found = gpu(world)
    assert found.units == 64
    assert {each.profile: each.units for each in found.offers} == {
        "mbochs-1": 1,
        "mbochs-2": 4,
        "mbochs-3": 16,
    }
    world.close()


def test_a_learned_budget_is_remembered_when_the_parent_is_no_longer_empty(tmp_path: Path) -> None:
    world = alone(tmp_path, *mbochs())
    gpu(world)
    world.host.foreign_mdev(UUID, "mbochs", "mbochs-3")
    found = gpu(world)
    assert (found.units, len(found.free_slots)) == (64, 48)
    assert offer(found, "mbochs-2").units == 4
    world.close()


def test_a_parent_never_seen_empty_is_blocked_until_it_is(tmp_path: Path) -> None:
    world = alone(tmp_path, *mbochs())
    world.host.foreign_mdev(UUID, "mbochs", "mbochs-3")
    assert "never seen empty" in gpu(world).blocked
    world.host.mdevs.clear()
    assert (gpu(world).blocked, gpu(world).units) == ("", 64)
    world.close()


def test_nothing_is_learned_while_mdevs_could_not_be_read(tmp_path: Path) -> None:
    """Could not read is not empty."""
    world = alone(tmp_path, *mbochs())
    world.host.parents[0].budget = 32
    world.host.unknown = (UnknownPart(part=f"mdevs {UUID}", why="vanished"),)
    assert gpu(world).offers == ()
    world.host.parents[0].budget, world.host.unknown = 64, ()
    assert gpu(world).units == 64
    world.close()


def test_two_vms_share_one_learned_budget_and_the_misfit_is_refused_beforehand(
    tmp_path: Path,
) -> None:
    world = alone(tmp_path, *mbochs())
    world.engine.apply([vm(f"v{n}", "mbochs-3") for n in range(4)])[1].raise_for_failure()
    with pytest.raises(NoPlacement) as caught:
        world.engine.apply([vm("one-more", "mbochs-1")])
    assert "mbochs" in caught.value.why
    assert len(world.host.mdevs) == 4
    world.close()


def test_fits_n_more_is_true_to_its_word(world: World) -> None:
    world.engine.apply([vm("web", "T4-4Q")])
    rooms = {
        room.profile: room
        for room in capacity(FleetRoom(build_fleet(world.engine.view()), vm("x")))
    }
    assert rooms["T4-4Q"].fits == 3
    assert rooms["T4-8Q"].fits == 0
    assert (rooms["T4-4Q"].in_use, rooms["passthrough"].fits) == (1, 0)
    more = [vm(f"v{n}", "T4-4Q") for n in range(3)]
    world.engine.apply(more)[1].raise_for_failure()
    with pytest.raises(NoPlacement):
        world.engine.apply([vm("last", "T4-4Q")])


def test_a_pool_that_a_host_lacks_is_told_by_name(world: World) -> None:
    with pytest.raises(NoPlacement) as caught:
        world.engine.apply([vm("web", disks=(DiskSpec(pool="ssd", size_bytes=1 << 30),))])
    assert "ssd" in caught.value.why
