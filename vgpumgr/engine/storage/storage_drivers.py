"""Drivers of storage pools by libvirt's name of a kind, and the refusal of what one cannot do."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.engine.steps.disk_growth import GrowDisk
from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.steps.volume_steps import CreateVolume, GrowVolume
from vgpumgr.engine.storage.ceph_pool import CephPool
from vgpumgr.engine.storage.file_pool import FOLDERS, FilePool
from vgpumgr.engine.storage.storage_driver import Ability, StorageDriver, VolumeName
from vgpumgr.engine.storage.thin_lvm_pool import ThinLvmPool
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import HostFacts, StoragePool
from vgpumgr.model.vm import VmRecord

DRIVERS: Mapping[str, StorageDriver] = {
    **dict.fromkeys(sorted(FOLDERS), FilePool()),
    "logical": ThinLvmPool(),
    "rbd": CephPool(),
}


def able(pool: str, kind: str, ability: Ability) -> StorageDriver:
    """The driver of a pool that can do that; Conflict where it cannot, or is not known."""
    found = DRIVERS.get(kind)
    if found is None or ability not in found.abilities:
        can = ", ".join(name for name, each in DRIVERS.items() if ability in each.abilities)
        raise Conflict(
            f"storage pool {pool} is of kind {kind or 'unknown'}, which knows no {ability}",
            why=f"these do: {can}",
            next="vgpumgr host show HOST",
        )
    return found


def create_volume(plan: VolumePlan, facts: HostFacts) -> Step:
    """The step that makes a volume on that host. A pool of no kind above, or of none that is known,
    is libvirt's own matter.
    """
    pool = _pool(facts, plan.pool)
    driver = DRIVERS.get(pool.kind) if pool else None
    return driver.create(plan, pool) if driver and pool else CreateVolume(plan=plan)


def grow_volume(volume: VolumeName, capacity_bytes: int, facts: HostFacts) -> Step:
    """The step that makes one larger there."""
    pool = _pool(facts, volume[0])
    driver = DRIVERS.get(pool.kind) if pool else None
    if driver and pool:
        return driver.grow(volume, capacity_bytes, pool)
    return GrowVolume(pool=volume[0], name=volume[1], capacity_bytes=capacity_bytes)


def grow_running(
    vm: VmRecord, disk: str, volume: VolumeName, capacity_bytes: int, facts: HostFacts
) -> tuple[Step, ...]:
    """The steps that make a disk (``vda``) of a running VM larger."""
    pool = _pool(facts, volume[0])
    driver = DRIVERS.get(pool.kind) if pool else None
    before = driver is not None and pool is not None and not driver.grown_by_guest
    return (
        *([grow_volume(volume, capacity_bytes, facts)] if before else []),
        GrowDisk(
            vm=vm.name,
            vm_id=vm.id,
            disk=disk,
            pool=volume[0],
            name=volume[1],
            capacity_bytes=capacity_bytes,
        ),
    )


def _pool(facts: HostFacts, name: str) -> StoragePool | None:
    return next((pool for pool in facts.pools if pool.name == name), None)
