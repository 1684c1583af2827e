"""What kinds of pools have in common whose storage clones a raw volume without copying a byte.

The volume that a VM had is kept, and the VM goes on in a clone of it: a running QEMU cannot change
over to that, so that a snapshot waits until the VM is off.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vgpumgr.engine.storage.storage_driver import Ability, FrozenDisk, PlacedDisk
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict
from vgpumgr.model.host import StoragePool
from vgpumgr.model.vm_devices import DiskMode

RAW = "raw"


@dataclass(frozen=True, slots=True)
class ThinVolumes:
    """The part of ``StorageDriver`` that they share."""

    formats: Collection[str] = (RAW,)
    layered: bool = False
    grown_by_guest: bool = False

    def refusal(self, disk: PlacedDisk) -> str:
        """A clone of anything else would be declared as what it is not."""
        if disk.format == RAW:
            return ""
        return f"its disk {disk.guest_name} is {disk.format}, and volumes there are raw"

    def freeze(self, disk: PlacedDisk, name: str) -> FrozenDisk:
        """The volume stays; the VM goes on in a clone of it."""
        plan = self.over(disk, name)
        return FrozenDisk(kept=disk.volume, goes_on=(plan.pool, plan.name), make=plan)

    def over(self, kept: PlacedDisk, name: str) -> VolumePlan:
        """A clone."""
        pool, source = kept.volume
        return VolumePlan(
            pool=pool,
            name=name,
            capacity_bytes=kept.size_bytes,
            format=RAW,
            mode=DiskMode.OVERLAY,
            source=source,
            source_path=kept.path,
            source_format=RAW,
        )


def refuse_other_pool(plan: VolumePlan, pool: StoragePool) -> None:
    """Conflict where the data is in another pool: a clone lies where its source does."""
    if plan.source_pool not in {"", pool.name}:
        raise Conflict(
            f"no disk in storage pool {pool.name} is made from {plan.source_pool}/{plan.source}",
            why=f"{pool.name} is of kind {pool.kind}, which clones volumes of its own alone",
            next="a disk in a pool of files, or an image that lies in the same pool",
        )


CLONING: Collection[Ability] = frozenset({Ability.SNAPSHOT, Ability.THIN_CLONE})
