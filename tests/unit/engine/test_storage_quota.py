"""What a tenant's disks may come to: made, grown, of an image's size, of a VM that is shelved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.model.errors import QuotaExceeded, VgpumgrError
from vgpumgr.model.quota import Quota, held_by_tenants
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_devices import DiskSpec

GIB = 1 << 30


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4"))
    made.engine.refresh()
    made.ledger.set_quota(Quota(tenant="default", storage_bytes=3 * GIB))
    made.apply(guest("a", 2))
    yield made
    made.close()


def guest(name: str, gib: int) -> VmSpec:
    return vm(name, "T4-2Q", disks=(DiskSpec(size_bytes=gib * GIB),))


def test_no_disk_goes_beyond_it(world: SimWorld) -> None:
    with pytest.raises(VgpumgrError) as refused:
        world.apply(guest("b", 2))
    assert "storage: 2GiB of 3GiB used, 2GiB asked" in str(refused.value.why)
    assert "--storage 4GiB" in refused.value.next
    world.apply(guest("b", 1))


def test_no_disk_grows_beyond_it(world: SimWorld) -> None:
    with pytest.raises(QuotaExceeded, match="the quota of tenant default is exceeded"):
        world.engine.apply([guest("a", 4)])
    assert world.ledger.vm("a").spec == guest("a", 2)
    world.engine.apply([guest("a", 3)])[1].raise_for_failure()


def test_a_shelved_vm_has_its_disks(world: SimWorld) -> None:
    world.engine.shelve(["a"], StopManner(force=True)).raise_for_failure()
    with pytest.raises(VgpumgrError):
        world.apply(guest("b", 2))
    held = held_by_tenants(world.ledger.vms(), (), ())["default"]
    assert (held.storage_bytes, held.vms) == (2 * GIB, 0)


def test_many_small_ones_are_refereed_together(world: SimWorld) -> None:
    with pytest.raises(VgpumgrError):
        world.apply(*(replace(guest(name, 1), gpus=()) for name in ("b", "c")))
    assert [each.name for each in world.ledger.vms()] == ["a"]
