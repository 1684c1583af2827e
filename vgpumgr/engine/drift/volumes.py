"""Volumes that were created for VMs, and the storage pools they lie in."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.engine.drift.side import Side
from vgpumgr.model.drift import Drift, DriftKind
from vgpumgr.model.vm import VmRecord


def drifts(side: Side) -> Iterator[Drift]:
    """Every volume that is gone, and every VM whose storage pool is."""
    if side.unread("libvirt"):
        return
    active = {pool.name: pool.active for pool in side.facts.pools}
    for vm in side.vms:
        for pool in dict.fromkeys(pool for pool, _ in vm.volumes):
            if not active.get(pool):
                yield _pool(side, vm, pool, defined=pool in active)
        for pool, name in vm.volumes:
            if side.seen.volumes.get((pool, name)) is False:
                yield _volume(side, vm, pool, name)


def _volume(side: Side, vm: VmRecord, pool: str, name: str) -> Drift:
    return Drift(
        kind=DriftKind.VOLUME_MISSING,
        host=side.host,
        vm=vm.name,
        subject=f"{pool}/{name}",
        text=f"volume {name} of {vm.name} is gone from storage pool {pool}",
        wanted="there",
        found="missing",
        next=f"bring the file back, or vgpumgr vm delete {vm.name} --force and apply again",
    )


def _pool(side: Side, vm: VmRecord, pool: str, *, defined: bool) -> Drift:
    return Drift(
        kind=DriftKind.POOL_INACTIVE if defined else DriftKind.POOL_MISSING,
        host=side.host,
        vm=vm.name,
        subject=pool,
        text=f"storage pool {pool}, where disks of {vm.name} lie, "
        + ("is not active" if defined else "is not defined"),
        wanted="active",
        found="inactive" if defined else "missing",
        next=f"on {side.host}: virsh {'pool-start' if defined else 'pool-define'} "
        + (pool if defined else f"the XML of {pool}"),
    )
