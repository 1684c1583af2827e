"""Volume groups of LVM's with a thin pool (libvirt's ``logical``): a volume is a thin volume, and a
clone is a thin snapshot, which stands alone from the first moment on.

libvirt makes no thin volumes, so that the host's helper does, with ``lvcreate``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.steps.thin_lvm_steps import CreateThinVolume, GrowThinVolume
from vgpumgr.engine.storage.storage_driver import Ability, PlacedDisk, VolumeName
from vgpumgr.engine.storage.thin_volumes import CLONING, ThinVolumes, refuse_other_pool
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.host import StoragePool
from vgpumgr.model.vm import VmRecord


@dataclass(frozen=True, slots=True)
class ThinLvmPool(ThinVolumes):
    """libvirt's ``logical``. Fulfils ``StorageDriver``."""

    abilities: Collection[Ability] = CLONING

    def create(self, plan: VolumePlan, pool: StoragePool) -> Step:
        """A copy and an overlay are the same there: a thin snapshot."""
        refuse_other_pool(plan, pool)
        return CreateThinVolume(plan=plan, group=pool.source.name)

    def grow(self, volume: VolumeName, capacity_bytes: int, pool: StoragePool) -> Step:
        """libvirt cannot grow it."""
        return GrowThinVolume(
            pool=volume[0],
            name=volume[1],
            capacity_bytes=capacity_bytes,
            group=pool.source.name,
        )

    def dissolve(self, kept: PlacedDisk, over: PlacedDisk, vm: VmRecord) -> tuple[Step, ...]:
        """Nothing has to be done: a thin snapshot shares blocks, and needs no volume."""
        return ()
