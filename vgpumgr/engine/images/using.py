"""Who uses a copy of an image. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.model.image import ImageCopy, ImageRecord
from vgpumgr.model.pool import Phase, PoolRecord, Rollout
from vgpumgr.model.vm import DiskMode, VmRecord


def users(
    image: ImageRecord, vms: Iterable[VmRecord], copy: ImageCopy | None = None
) -> tuple[str, ...]:
    """The VMs whose disks lie over the image, or over this copy of it; on their way there, too."""
    return tuple(
        vm.name
        for vm in vms
        if (copy is None or copy.host in _hosts(vm))
        for pool in (None if copy is None else copy.pool,)
        if any(
            (disk.image, disk.mode) == (image.volume, DiskMode.OVERLAY)
            and pool in {None, disk.pool}
            for disk in vm.spec.disks
        )
    )


def pools_of(image: ImageRecord, pools: Iterable[PoolRecord]) -> tuple[str, ...]:
    """The pools whose desktops are made from it, or would be if a rollout went back."""
    return tuple(
        pool.name
        for pool in pools
        if image.reference in {pool.spec.image, *(_of(pool.rollout) if pool.rollout else ())}
    )


def _of(rollout: Rollout) -> tuple[str, ...]:
    """What came before matters no more once all desktops have the new one."""
    return (rollout.image,) if rollout.phase is Phase.DONE else (rollout.image, rollout.previous)


def _hosts(vm: VmRecord) -> frozenset[str]:
    return frozenset({vm.host, *([vm.moving_to.host] if vm.moving_to else ())})
