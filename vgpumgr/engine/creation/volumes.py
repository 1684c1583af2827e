"""The volumes that are made for a VM."""

from __future__ import annotations

from vgpumgr.engine.creation.site import Site, volume_path
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.vm import DiskMode, VmSpec

SEED_BYTES = 1 << 20


def volume_name(name: str, vm_id: str, number: int, extension: str) -> str:
    """A volume's name carries the VM's id, so that it can only be ours."""
    return f"{name}-{vm_id[:8]}-{number}.{extension}"


def volume_plan(spec: VmSpec, vm_id: str, number: int, site: Site) -> VolumePlan:
    """The volume of a VM's n-th disk."""
    disk = spec.disks[number]
    name = volume_name(spec.name, vm_id, number, disk.format)
    image_path = volume_path(site.facts, disk.pool, disk.image) if disk.image else None
    return VolumePlan(
        pool=disk.pool,
        name=name,
        capacity_bytes=disk.size_bytes,
        format=disk.format,
        mode=disk.mode,
        source=disk.image,
        source_path=image_path if disk.mode is DiskMode.OVERLAY else None,
        source_format=disk.image_format if disk.image else None,
    )


def seed_volumes(spec: VmSpec, vm_id: str) -> tuple[VolumePlan, ...]:
    """The volume of the cloud-init seed, where there is one."""
    if spec.cloud_init is None:
        return ()
    name = volume_name(spec.name, vm_id, len(spec.disks), "iso")
    pool = spec.cloud_init.pool
    return (VolumePlan(pool=pool, name=name, capacity_bytes=SEED_BYTES, format="raw"),)
