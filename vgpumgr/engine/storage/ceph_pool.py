"""Pools of Ceph's (libvirt's ``rbd``): a volume is an image, and a clone is laid over a snapshot of
another image, which libvirt makes for that.

A clone needs what it is laid over until it has all of that in itself. libvirt does not ask Ceph for
that, so that the host's helper does, with ``rbd``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vgpumgr.engine.steps.ceph_steps import CloneImage, FlattenImage
from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.steps.volume_steps import CreateVolume, GrowVolume
from vgpumgr.engine.storage.storage_driver import Ability, PlacedDisk, VolumeName
from vgpumgr.engine.storage.thin_volumes import CLONING, ThinVolumes, refuse_other_pool
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.host import StoragePool
from vgpumgr.model.vm import VmRecord
from vgpumgr.model.vm_devices import DiskMode


@dataclass(frozen=True, slots=True)
class CephPool(ThinVolumes):
    """libvirt's ``rbd``. Fulfils ``StorageDriver``."""

    abilities: Collection[Ability] = CLONING

    def create(self, plan: VolumePlan, pool: StoragePool) -> Step:
        """libvirt clones for either mode; a copy is to stand alone."""
        refuse_other_pool(plan, pool)
        if plan.source is None:
            return CreateVolume(plan=plan)
        return CloneImage(plan=plan, alone=plan.mode == DiskMode.COPY)

    def grow(self, volume: VolumeName, capacity_bytes: int, pool: StoragePool) -> Step:
        """libvirt grows it."""
        return GrowVolume(pool=volume[0], name=volume[1], capacity_bytes=capacity_bytes)

    def dissolve(self, kept: PlacedDisk, over: PlacedDisk, vm: VmRecord) -> tuple[Step, ...]:
        """Ceph copies into the clone what it lacks."""
        return (FlattenImage(pool=over.volume[0], name=over.volume[1]),)
