"""What a probe leaves in the ledger: GPUs keep their key, evidence that disagrees stops."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import update

from tests.unit.store.values import SLOTS, allocation, board, facts, fleet, gpu, see, start, vm
from vgpumgr.model.domain import DomainFacts, DomainState, Ownership
from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.gpu import (
    GpuFacts,
    GpuHealth,
    GpuInstance,
    GpuRecord,
    GpuState,
    Mdev,
    MdevType,
    MigFacts,
    VendorVgpu,
    VfFacts,
)
from vgpumgr.model.host import (
    ClaimFacts,
    FabricFacts,
    FabricPartitionFacts,
    HostFacts,
    NumaNode,
    StoragePool,
    UnknownPart,
)
from vgpumgr.store import SqlLedger
from vgpumgr.store.schema import gpu as gpu_table

COMPLETE: dict[str, object] = {}
PARTIAL = {"unknown": (UnknownPart(part="devices", why="no sudo"),)}


def hold(ledger: SqlLedger, on: GpuRecord, slots: tuple[int, ...] = (0,)) -> None:
    owner = vm(f"owner-of-{on.id}-{slots[0]}", on.host)
    ledger.reserve(start(allocation(owner, on, slots), vms=[owner]))


def states(ledger: SqlLedger) -> dict[str, str]:
    return {each.facts.device: each.state.value for each in ledger.gpus()}


def test_a_gpu_gets_its_key_at_first_sight_and_keeps_it(url: str) -> None:
    ledger = fleet(url, gpus=2)
    first = ledger.gpus()
    assert all(re.fullmatch(r"gpu-[0-9a-f]{8}", each.id) for each in first)
    assert len({each.id for each in first}) == 2
    assert [each.facts for each in first] == [board("h1", 1), board("h1", 2)]
    see(ledger, "h1", board("h1", 1), board("h1", 2))
    assert ledger.gpus() == first == ledger.gpus("h1")
    assert ledger.gpus("other") == ()
    ledger.close()


@pytest.mark.parametrize(
    "again",
    [
        board("h1", 1, uuid=None, serial=None),
        board("h1", 1, uuid=None, device="0000:81:00.0"),
        board("h1", 1, serial=None, device="0000:81:00.0"),
        board("h1", 1, serial="S-reflashed"),
    ],
    ids=["by its place", "by its serial", "by its UUID", "by its UUID with a new serial"],
)
def test_a_gpu_is_recognised(url: str, again: GpuFacts) -> None:
    ledger = fleet(url)
    [before] = ledger.gpus()
    see(ledger, "h1", again)
    [after] = ledger.gpus()
    assert after.id == before.id
    assert after.facts.device == again.device
    ledger.close()


def test_evidence_once_seen_is_kept_while_the_driver_cannot_show_it(url: str) -> None:
    """A GPU bound to vfio-pci is invisible to NVML; its UUID must still be known afterwards."""
    ledger = fleet(url)
    see(ledger, "h1", board("h1", 1, uuid=None, serial=None, memory_mib=None))
    [kept] = ledger.gpus()
    assert (kept.facts.uuid, kept.facts.serial) == ("GPU-h1-1", "S-h1-1")
    see(ledger, "h1", board("h1", 1, device="0000:81:00.0"))
    assert ledger.gpus()[0].id == kept.id
    ledger.close()


def test_gpus_of_one_board_share_a_serial_and_are_told_apart(url: str) -> None:
    ledger = fleet(url, gpus=0)
    quarter = [board("h1", number, serial="A16") for number in range(1, 5)]
    see(ledger, "h1", *quarter)
    first = ledger.gpus()
    see(ledger, "h1", *reversed(quarter))
    assert ledger.gpus() == first
    see(ledger, "h1", *(replace(each, uuid=None) for each in quarter))
    assert [each.id for each in ledger.gpus()] == [each.id for each in first]
    ledger.close()


def test_two_gpus_that_swap_slots_are_both_recognised(url: str) -> None:
    ledger = fleet(url, gpus=2)
    one, two = ledger.gpus()
    see(
        ledger,
        "h1",
        board("h1", 1, device=two.facts.device),
        board("h1", 2, device=one.facts.device),
    )
    assert [each.id for each in ledger.gpus()] == [two.id, one.id]
    ledger.close()


def test_a_virtual_parent_is_known_by_its_name(url: str) -> None:
    ledger = fleet(url, gpus=0)
    parent = gpu("mtty", model="mtty", vendor_device="", uuid=None, serial=None)
    see(ledger, "h1", parent)
    first = ledger.gpus()
    see(ledger, "h1", parent)
    assert ledger.gpus() == first
    ledger.close()


def test_an_exchanged_board_is_a_new_gpu_and_the_old_one_is_missing(url: str) -> None:
    ledger = fleet(url)
    [old] = ledger.gpus()
    see(ledger, "h1", board("h1", 1, uuid="GPU-new", serial="S-new"))
    by_id = {each.id: each.state for each in ledger.gpus()}
    assert by_id.pop(old.id) is GpuState.MISSING
    assert list(by_id.values()) == [GpuState.HEALTHY]
    ledger.close()


@pytest.mark.parametrize("other", [{"vendor_device": "10de:2235"}, {"serial": "S-new"}])
def test_another_kind_of_board_at_the_place_is_a_new_gpu(
    url: str, other: dict[str, object]
) -> None:
    ledger = fleet(url)
    see(ledger, "h1", board("h1", 1, **({"uuid": None, "serial": None} | other)))
    assert len(ledger.gpus()) == 2
    ledger.close()


# -- evidence that disagrees -----------------------------------------------------------------


def uuid_of_one_serial_of_another(ledger: SqlLedger) -> tuple[HostFacts, list[str]]:
    one, two = ledger.gpus("h1")
    seen = facts("h1", board("h1", 1, serial=two.facts.serial))
    return seen, [one.id, two.id]


def two_keys_for_one_gpu(ledger: SqlLedger) -> tuple[HostFacts, list[str]]:
    """One was only ever known by its serial, the other only by its UUID."""
    see(
        ledger,
        "h1",
        gpu("0000:81:00.0", uuid=None, serial="S-only"),
        gpu("0000:82:00.0", uuid="GPU-only", serial=None),
    )
    seen = facts("h1", gpu("0000:81:00.0", uuid="GPU-only", serial="S-only"))
    ids = [g.id for g in ledger.gpus("h1") if g.facts.device.startswith("0000:8")]
    return seen, ids


def same_uuid_twice_in_one_probe(ledger: SqlLedger) -> tuple[HostFacts, list[str]]:
    seen = facts("h1", board("h1", 1), board("h1", 1, device="0000:81:00.0"))
    return seen, ["0000:41:00.0", "0000:81:00.0"]


def new_uuid_twice_in_one_probe(ledger: SqlLedger) -> tuple[HostFacts, list[str]]:
    seen = facts("h1", *(gpu(f"0000:8{n}:00.0", uuid="GPU-new", serial=None) for n in (1, 2)))
    return seen, ["0000:81:00.0", "0000:82:00.0"]


def known_on_a_host_that_still_shows_it(ledger: SqlLedger) -> tuple[HostFacts, list[str]]:
    [there] = ledger.gpus("h2")
    return facts("h1", board("h2", 1, device="0000:81:00.0")), [there.id, "h2", "0000:81:00.0"]


def moved_away_while_allocated(ledger: SqlLedger) -> tuple[HostFacts, list[str]]:
    [there] = ledger.gpus("h2")
    hold(ledger, there)
    see(ledger, "h2")
    return facts("h1", board("h2", 1, device="0000:81:00.0")), [there.id, "h2"]


def exchanged_while_allocated(ledger: SqlLedger) -> tuple[HostFacts, list[str]]:
    one = ledger.gpus("h1")[0]
    hold(ledger, one)
    seen = facts("h1", board("h1", 1, uuid="GPU-new", serial="S-new"), board("h1", 2))
    return seen, [one.id, "GPU-new"]


@pytest.mark.parametrize(
    "case",
    [
        uuid_of_one_serial_of_another,
        two_keys_for_one_gpu,
        same_uuid_twice_in_one_probe,
        new_uuid_twice_in_one_probe,
        known_on_a_host_that_still_shows_it,
        moved_away_while_allocated,
        exchanged_while_allocated,
    ],
)
def test_evidence_that_disagrees_names_both_and_changes_nothing(
    url: str, case: Callable[[SqlLedger], tuple[HostFacts, list[str]]]
) -> None:
    ledger = fleet(url, ["h1"], gpus=2)
    ledger.add_host(replace(ledger.host("h1"), name="h2", address="root@h2", facts=None))
    see(ledger, "h2", board("h2", 1))
    seen, names = case(ledger)
    before = (ledger.gpus(), ledger.hosts(), ledger.allocations())
    with pytest.raises(Conflict) as caught:
        ledger.observe(replace(seen, cpus=99), {}, 200.0)
    assert all(name in f"{caught.value.message} {caught.value.why}" for name in names)
    assert (ledger.gpus(), ledger.hosts(), ledger.allocations()) == before
    ledger.close()


# -- gone and back -----------------------------------------------------------------------------


def test_a_gpu_that_a_complete_probe_does_not_show_is_missing_until_it_is_back(
    url: str,
) -> None:
    ledger = fleet(url, gpus=2)
    hold(ledger, ledger.gpus()[0])
    see(ledger, "h1", board("h1", 2))
    assert states(ledger) == {"0000:41:00.0": "missing", "0000:42:00.0": "healthy"}
    assert len(ledger.allocations()) == 1
    see(ledger, "h1", board("h1", 1), board("h1", 2))
    assert states(ledger) == {"0000:41:00.0": "healthy", "0000:42:00.0": "healthy"}
    ledger.close()


def test_a_partial_probe_marks_nothing_missing(url: str) -> None:
    ledger = fleet(url, gpus=2)
    see(ledger, "h1", board("h1", 2), **PARTIAL)
    assert set(states(ledger).values()) == {"healthy"}
    assert ledger.host("h1").facts is not None
    assert ledger.host("h1").facts.unknown[0].part == "devices"  # type: ignore[union-attr]
    ledger.close()


def test_a_gpu_carried_to_another_host_keeps_its_key(url: str) -> None:
    ledger = fleet(url, ["h1", "h2"])
    [moved] = ledger.gpus("h1")
    see(ledger, "h1")
    see(ledger, "h2", board("h2", 1), board("h1", 1, device="0000:81:00.0"))
    assert ledger.gpus("h1") == ()
    assert moved.id in {each.id for each in ledger.gpus("h2")}
    ledger.close()


# -- units and generations ---------------------------------------------------------------------


def test_units_grow_and_never_drop_slots_in_use(url: str) -> None:
    ledger = fleet(url)
    hold(ledger, ledger.gpus()[0], (4, 5))
    counted = []
    for count in (16, 2, 0):
        ledger.observe(facts("h1", board("h1", 1)), {"0000:41:00.0": count}, 1.0)
        counted.append(ledger.gpus()[0].units)
    assert counted == [16, 6, 6]
    ledger.close()


def vgpu_on(type_id: int) -> VfFacts:
    creatable = () if type_id else (1145, 1147)
    return VfFacts(
        number=0,
        address="0000:41:00.4",
        vendor=VendorVgpu(creatable=creatable, type_id=type_id),
    )


def sliced(start: int | None) -> MigFacts:
    """One GPU instance, or none that could be read."""
    made = GpuInstance(id=9, profile="1g.10gb", profile_id=19, start=start or 0, size=1)
    instances = (made,) if start is not None else None
    return MigFacts(enabled=True, pending=True, instances=instances)


def claim(fleet_id: str, unit: str, **wanted: object) -> ClaimFacts:
    return ClaimFacts(
        unit=unit, fleet=fleet_id, epoch=1, allocation="a", generation=1, vm="v", wanted=wanted
    )


def ours(fleet_id: str, uuid: str) -> dict[str, object]:
    """What our own work leaves on a host: a domain, an mdev, a vGPU in a GPU instance made for
    it, an active partition, their claims, less of everything."""
    instance = {"gpu": "0000:41:00.0", "profile_id": 19, "start": 2, "size": 1, "make": True}
    owner = Ownership(fleet=fleet_id, vm="v", vm_id="1", generation=1)
    return {
        "domains": (DomainFacts(name="v", uuid="1", state=DomainState.RUNNING, ownership=owner),),
        "mdevs": (Mdev(uuid=uuid, parent="0000:41:00.0", type_id="nvidia-232"),),
        "fabric": FabricFacts(partitions=(FabricPartitionFacts(id=3, gpus=(1, 2), active=True),)),
        "claims": (
            claim(fleet_id, f"mdev-{uuid}"),
            claim(fleet_id, "pci-0000:41:00.4", instance=instance),
            claim(fleet_id, "fabric-3"),
        ),
        "pools": (pool(5),),
        "numa": (node(3),),
    }


def pool(available: int) -> StoragePool:
    return StoragePool(
        name="default", kind="dir", path="/p", capacity_bytes=9, available_bytes=available
    )


def node(free: int) -> NumaNode:
    return NumaNode(id=0, cpus=(0, 1), memory_mib=64000, hugepages_free={2048: free})


def test_looking_again_raises_no_generation(url: str) -> None:
    """Our own VMs, the pool's free bytes and the driver's counts move all the time."""
    ledger = fleet(url)
    idle = FabricFacts(partitions=(FabricPartitionFacts(id=3, gpus=(1, 2)),))
    empty = board("h1", 1, vfs=(vgpu_on(0),), mig=replace(sliced(0), instances=()))
    see(ledger, "h1", empty, pools=(pool(9),), numa=(node(9),), fabric=idle)
    host, [before] = ledger.host("h1"), ledger.gpus()
    busy = (MdevType(type_id="nvidia-232", name="GRID T4-4Q", available=3),)
    seen = replace(empty, mdev_types=busy, driver="vfio-pci", vfs=(vgpu_on(1147),), mig=sliced(2))
    ledger.observe(
        facts("h1", seen, boot_id="b2", **ours(ledger.fleet_id(), "u1")), {seen.device: SLOTS}, 999
    )
    after = ledger.host("h1")
    assert after.generation == host.generation
    assert after.observed_at == 999
    assert after.facts is not None
    assert after.facts.boot_id == "b2"
    assert ledger.gpus() == (replace(before, facts=seen),)
    ledger.close()


@pytest.mark.parametrize(
    "change",
    [
        {"cpus": 8},
        {"memory_mib": 32000},
        {"networks": ("default",)},
        {"domains": (DomainFacts(name="f", uuid="1", state=DomainState.RUNNING),)},
        {"mdevs": (Mdev(uuid="foreign", parent="0000:41:00.0", type_id="nvidia-232"),)},
        {"gpus": (board("h1", 1, vfs=(vgpu_on(1147),)),)},
        {"gpus": (board("h1", 1, mig=sliced(2)),)},
        {"gpus": (board("h1", 1, mig=sliced(None)),)},
        {"fabric": FabricFacts(partitions=(FabricPartitionFacts(id=3, gpus=(1, 2), active=True),))},
        {"unknown": (UnknownPart(part="domains", why="libvirt is off"),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_of_supply_raises_the_hosts_generation(
    url: str, change: dict[str, object]
) -> None:
    ledger = fleet(url)
    before = ledger.host("h1").generation
    for _ in range(2):
        ledger.observe(facts("h1", **({"gpus": (board("h1", 1),)} | change)), {}, 100.0)
    assert ledger.host("h1").generation == before + 1
    ledger.close()


@pytest.mark.parametrize(
    "change",
    [
        {"memory_mib": 1},
        {"mdev_types": ()},
        {"iommu_group": 7},
        {"type_units": {}},
        {"vfs": (VfFacts(number=0, address="0000:41:00.4"),)},
        {"mig": MigFacts(enabled=True, pending=True)},
        {"mixed_size": True},
        {"health": GpuHealth.LOST},
        {"module_id": 3},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_of_a_gpu_raises_its_generation(url: str, change: dict[str, object]) -> None:
    ledger = fleet(url)
    [before] = ledger.gpus()
    see(ledger, "h1", board("h1", 1, **change))
    [after] = ledger.gpus()
    assert after.generation == before.generation + 1
    ledger.close()


def test_a_host_that_is_not_enrolled_cannot_be_observed(url: str) -> None:
    ledger = fleet(url)
    with pytest.raises(NotFound, match="no host h9"):
        see(ledger, "h9", board("h9", 1))
    assert len(ledger.gpus()) == 1
    ledger.close()


def test_evidence_that_is_learned_later_is_kept_though_nothing_else_changed(url: str) -> None:
    ledger = fleet(url, gpus=0)
    see(ledger, "h1", board("h1", 1, uuid=None, serial=None))
    see(ledger, "h1", board("h1", 1, serial=None))
    assert ledger.gpus()[0].facts == board("h1", 1, serial=None)
    see(ledger, "h1", board("h1", 1))
    assert ledger.gpus()[0].facts == board("h1", 1)


@pytest.mark.parametrize("stored", ["{", "[]", '{"device":1}', '{"device":"0000:41:00.0"}'])
def test_a_look_puts_facts_right_that_cannot_be_read(url: str, stored: str) -> None:
    ledger = fleet(url)
    with ledger._database.write() as connection:
        connection.execute(update(gpu_table).values(facts=stored))
    see(ledger, "h1", board("h1", 1))
    assert ledger.gpus()[0].facts == board("h1", 1)
