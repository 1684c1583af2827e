"""Pools that are folders: a disk is a file, kept by a qcow2 file that is laid over it.

Every snapshot is a file of its own, and nothing writes to it: what goes wrong with a newer file
leaves it whole, a disk with snapshots can be copied file by file, and a running QEMU changes over
to new files for all disks in one transaction. Snapshots inside a qcow2 file can do none of these.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vgpumgr.engine.steps.snapshot_steps import DissolveVolume
from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.steps.volume_steps import CreateVolume, GrowVolume
from vgpumgr.engine.storage.storage_driver import Ability, FrozenDisk, PlacedDisk, VolumeName
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.host import StoragePool
from vgpumgr.model.vm import VmRecord
from vgpumgr.model.vm_devices import DiskMode

_QCOW2 = "qcow2"
FOLDERS = frozenset({"dir", "fs", "netfs"})
"""libvirt's kinds of pools that are folders."""


@dataclass(frozen=True, slots=True)
class FilePool:
    """libvirt's ``dir``, ``fs`` and ``netfs``. Fulfils ``StorageDriver``."""

    abilities: Collection[Ability] = frozenset(Ability)
    formats: Collection[str] = ("qcow2", "raw")
    layered: bool = True
    grown_by_guest: bool = True

    def create(self, plan: VolumePlan, pool: StoragePool) -> Step:
        """libvirt makes it."""
        return CreateVolume(plan=plan)

    def grow(self, volume: VolumeName, capacity_bytes: int, pool: StoragePool) -> Step:
        """libvirt grows it."""
        return GrowVolume(pool=volume[0], name=volume[1], capacity_bytes=capacity_bytes)

    def refusal(self, disk: PlacedDisk) -> str:
        """A raw file cannot name what it is laid over, and the VM is defined with one format."""
        if disk.format == _QCOW2:
            return ""
        return f"its disk {disk.guest_name} is {disk.format}, and only qcow2 is laid over another"

    def freeze(self, disk: PlacedDisk, name: str) -> FrozenDisk:
        """The file stays; the VM goes on in one that is laid over it."""
        plan = self.over(disk, name)
        return FrozenDisk(kept=disk.volume, goes_on=(plan.pool, plan.name), make=plan)

    def over(self, kept: PlacedDisk, name: str) -> VolumePlan:
        """An overlay."""
        pool, source = kept.volume
        return VolumePlan(
            pool=pool,
            name=name,
            capacity_bytes=kept.size_bytes,
            format=_QCOW2,
            mode=DiskMode.OVERLAY,
            source=source,
            source_path=kept.path,
            source_format=kept.format,
        )

    def dissolve(self, kept: PlacedDisk, over: PlacedDisk, vm: VmRecord) -> tuple[Step, ...]:
        """The upper file takes over what it lacks; the lower one is only read."""
        return (
            DissolveVolume(
                name=vm.name,
                vm_id=vm.id,
                disk=over.guest_name,
                path=over.path,
                over=kept.path,
                below=kept.below,
            ),
        )
