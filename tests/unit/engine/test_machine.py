"""What a VM's file says of its machine: TPM, secure boot, CPU, and how disks and NICs are used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr import domainxml
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.model.domain import DiskTuning, NicTuning
from vgpumgr.model.errors import Conflict, NoPlacement, VgpumgrError
from vgpumgr.model.vm_devices import DiskSpec, NicSpec

DISK = DiskSpec(size_bytes=1 << 20)
NIC = NicSpec(bridge="br0")
MAC = "52:54:00:12:34:56"
UUID = "6a5f3c1e-0b7d-4c8e-9f21-3d4e5f6a7b8c"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    bare = host("T4", tpm=False, secure_boot=False, filters=())
    made = SimWorld(tmp_path, bare, host("T4", name="h2"), host("T4", name="h3"))
    made.engine.refresh()
    yield made
    made.close()


def defined(world: SimWorld, name: str) -> domainxml.DomainParts:
    record = world.ledger.vm(name)
    return domainxml.parts(world.hosts.open(world.ledger.host(record.host)).domains.xml(name))


@pytest.mark.parametrize(
    "asked",
    [
        {"tpm": True},
        {"secure_boot": True, "firmware": "uefi"},
        {"nics": (replace(NIC, tuning=NicTuning(filter="clean-traffic")),)},
    ],
)
def test_a_vm_is_made_where_its_machine_can_be(world: SimWorld, asked: dict[str, object]) -> None:
    world.apply(vm("a", "T4-8Q", **asked))
    assert world.ledger.vm("a").host in {"h2", "h3"}
    assert world.ledger.vm("a").running


def test_what_is_said_of_disks_and_nics_changes_at_the_next_start(world: SimWorld) -> None:
    plain = vm("a", "T4-8Q", disks=(DISK,), nics=(NIC,))
    world.apply(plain)
    tuned = replace(
        plain,
        disks=(replace(DISK, tuning=DiskTuning(cache="none", iops=500)),),
        nics=(replace(NIC, mac=MAC, tuning=NicTuning(model="e1000e", inbound_kib_s=1024)),),
        cpu_shares=2048,
    )
    held = world.ledger.vm("a").volumes
    with pytest.raises(Conflict, match="the change needs a stop of a"):
        world.engine.apply([tuned])
    world.engine.apply([tuned], restart=True)[1].raise_for_failure()
    found = defined(world, "a")
    assert found.settings["CPU shares"] == "2048"
    assert found.devices[f"NIC {MAC}"] == "bridge br0, model e1000e, inbound 1024 KiB/s"
    assert found.devices["disk vda"].endswith("(qcow2, cache none, total_iops_sec 500)")
    assert world.ledger.vm("a").volumes == held


def test_secure_boot_is_a_new_vms(world: SimWorld) -> None:
    disk = replace(DISK, tuning=DiskTuning(cache="none", iops=500))
    world.apply(vm("a", firmware="uefi", disks=(disk,)))
    with pytest.raises(Conflict, match="a cannot change secure_boot in place") as caught:
        signed = vm("a", firmware="uefi", disks=(disk,), secure_boot=True)
        world.engine.apply([signed], restart=True)
    assert "cache: none, iops: 500}]" in caught.value.next


def tpm(world: SimWorld, host: str) -> object:
    """What the TPM of ``a`` holds there."""
    helper = world.hosts.open(world.ledger.host(host)).helper
    return helper.call("tpm_state_read", {"uuid": world.ledger.vm("a").id})["files"]


def test_a_tpm_is_not_left_behind(world: SimWorld) -> None:
    world.apply(vm("a", tpm=True))
    here = world.ledger.vm("a").host
    there = "h3" if here == "h2" else "h2"
    held = tpm(world, here)
    assert held and not tpm(world, there)
    world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()
    world.engine.migrate("a", there, cold=True).raise_for_failure()
    world.engine.start(["a"]).raise_for_failure()
    assert tpm(world, there) == held and not tpm(world, here)


def test_a_tpm_stays_where_its_vm_cannot_go(world: SimWorld) -> None:
    world.apply(vm("a", tpm=True))
    here = world.ledger.vm("a").host
    there = "h3" if here == "h2" else "h2"
    held = tpm(world, here)
    world.sim.inject(there, ["refuse", "domains.start", "EIO", "1"])
    with pytest.raises(VgpumgrError):
        world.engine.migrate("a", there, cold=True).raise_for_failure()
    assert world.ledger.vm("a").host == here
    assert tpm(world, here) == held and not tpm(world, there)


def test_a_renamed_vm_has_its_tpm(world: SimWorld) -> None:
    world.apply(vm("b", tpm=True))
    world.engine.rename("b", "a", stop=StopManner(force=True)).raise_for_failure()
    held = tpm(world, world.ledger.vm("a").host)
    world.engine.rename("a", "b", stop=StopManner(force=True)).raise_for_failure()
    world.engine.rename("b", "a", stop=StopManner(force=True)).raise_for_failure()
    assert held and tpm(world, world.ledger.vm("a").host) == held


def test_a_mac_address_is_one_nics(world: SimWorld) -> None:
    own = (replace(NIC, mac=MAC),)
    world.apply(vm("a", nics=own))
    with pytest.raises(Conflict, match=f"b cannot have the MAC address {MAC}") as caught:
        world.engine.apply([vm("b", nics=own)])
    assert caught.value.why == "a has it"
    world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()
    clone = world.engine.clone_spec(world.ledger.vm("a"), "b")
    assert clone.nics == (NIC,)


def test_a_uuid_that_a_vm_came_with_is_its_machines_and_one_vms(world: SimWorld) -> None:
    world.apply(vm("a", uuid=UUID, disks=(DISK,)))
    record = world.ledger.vm("a")
    seen = world.hosts.open(world.ledger.host(record.host)).domains.look("a")
    assert seen is not None
    assert (seen.uuid, record.domain_uuid) == (UUID, UUID)
    assert seen.ownership is not None
    assert (seen.ownership.vm_id, seen.ownership.uuid) == (record.id, UUID)
    assert record.id != UUID
    with pytest.raises(Conflict, match=f"b cannot have the UUID {UUID}") as caught:
        world.engine.apply([vm("b", uuid=UUID)])
    assert caught.value.why == "a has it"
    with pytest.raises(Conflict, match=f"b cannot have the UUID {record.id}"):
        world.engine.apply([vm("b", uuid=record.id)])
    with pytest.raises(Conflict, match="a cannot change uuid in place"):
        world.engine.apply([vm("a", disks=(DISK,))], restart=True)
    world.engine.stop_vms(["a"], force=True, timeout_s=5.0).raise_for_failure()
    assert world.engine.clone_spec(world.ledger.vm("a"), "b").uuid == ""
    world.engine.migrate("a", "h3" if record.host == "h2" else "h2", cold=True).raise_for_failure()
    moved = world.hosts.open(world.ledger.host(world.ledger.vm("a").host)).domains.look("a")
    assert moved is not None
    assert moved.uuid == UUID
    assert not world.engine.drift().drifts
    world.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    world.apply(vm("a", uuid=UUID))


def test_a_disk_larger_than_its_pool_is_refused(world: SimWorld) -> None:
    with pytest.raises(NoPlacement) as caught:
        world.engine.apply([vm("a", disks=(DiskSpec(size_bytes=900 << 40),))])
    assert "has 16TiB in all, a disk of 900TiB is needed" in caught.value.why
    assert world.ledger.vms() == ()


def test_disks_larger_than_what_is_free_of_their_pool_are_refused(world: SimWorld) -> None:
    nine = DiskSpec(size_bytes=9 << 40)
    with pytest.raises(NoPlacement) as caught:
        world.engine.apply([vm("a", disks=(nine, nine))])
    assert "free, disks of 18TiB are needed" in caught.value.why
    assert world.ledger.vms() == ()
    world.apply(vm("a", disks=(nine,)))
