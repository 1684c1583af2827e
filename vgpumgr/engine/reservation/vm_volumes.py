"""A host as the site of a VM: its storage paths, and the volumes that are created for the VM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from vgpumgr.engine.reservation.autostart import autostarts
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.vm import VmRecord, VmSpec
from vgpumgr.model.vm_devices import DiskMode, DiskSpec


@dataclass(frozen=True, slots=True)
class VmSite:
    """Where VMs are made: the host, its last probe, its GPUs, and the fleet's id.

    ``made`` are the GPU instances that exist because VMs needed them: first slices by GPU's id.
    """

    fleet: str
    host: HostRecord
    facts: HostFacts
    gpus: dict[str, GpuRecord]
    made: Mapping[str, frozenset[int]]

    @property
    def modules(self) -> dict[str, int | None]:
        """Physical ids on an NVSwitch board, by GPU."""
        return {each.id: each.facts.module_id for each in self.gpus.values()}

    def autostarts(self, spec: VmSpec) -> bool:
        """Does libvirt here start the VM with the host?"""
        return autostarts(spec, self.host)


def volume_path(facts: HostFacts, pool: str, name: str) -> str:
    """Where a volume lies; NotFound for a pool that the host does not show."""
    target = next((each.path for each in facts.pools if each.name == pool), None)
    if target is None:
        raise NotFound(
            f"host {facts.host} shows no storage pool {pool}",
            why=f"it has: {', '.join(each.name for each in facts.pools) or 'none'}",
            next=f"vgpumgr host probe {facts.host}",
        )
    return f"{target.rstrip('/')}/{name}"


SEED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AttachedVolume:
    """A volume as its VM has it: ``disk`` is what it was made for, None for the cloud-init seed;
    ``guest_name`` what the guest calls it (``vda``).
    """

    pool: str
    name: str
    disk: DiskSpec | None
    guest_name: str

    @property
    def format(self) -> str:
        """The declared format."""
        return self.disk.format if self.disk else "raw"


def attached(vm: VmRecord) -> Iterator[AttachedVolume]:
    """The volumes of a VM in their order: its disks, then the seed if it has one."""
    disks: list[DiskSpec | None] = [*vm.spec.disks, *([None] if vm.spec.cloud_init else [])]
    for number, ((pool, name), disk) in enumerate(zip(vm.volumes, disks, strict=True)):
        yield AttachedVolume(pool, name, disk, f"vd{chr(ord('a') + number)}" if disk else "sda")


def volume_name(name: str, vm_id: str, number: int | str, extension: str) -> str:
    """A volume's name carries the VM's id, so that it can only be ours."""
    return f"{name}-{vm_id[:8]}-{number}.{extension}"


def volume_plan(spec: VmSpec, vm_id: str, number: int, site: VmSite) -> VolumePlan:
    """The volume of a VM's n-th disk."""
    disk = spec.disks[number]
    return _plan(disk, volume_name(spec.name, vm_id, number, disk.format), site)


def new_first_volume(vm: VmRecord, site: VmSite) -> VolumePlan:
    """One for a VM's first disk, beside the volumes that it has: its name is of none of them."""
    disk = vm.spec.disks[0]
    taken = {name for _, name in vm.every_volume}
    names = (volume_name(vm.name, vm.id, number, disk.format) for number in count())
    return _plan(disk, next(name for name in names if name not in taken), site)


def more_volumes(vm: VmRecord, spec: VmSpec, site: VmSite) -> tuple[VolumePlan, ...]:
    """Those of the disks that a spec has after a VM's own; their names are of none that it has."""
    taken, made = {name for _, name in vm.every_volume}, []
    for place, disk in enumerate(spec.disks[len(vm.spec.disks) :], len(vm.spec.disks)):
        names = (volume_name(vm.name, vm.id, number, disk.format) for number in count(place))
        made.append(_plan(disk, next(name for name in names if name not in taken), site))
        taken.add(made[-1].name)
    return tuple(made)


def grown_volumes(vm: VmRecord, spec: VmSpec) -> Iterator[tuple[str, str, int]]:
    """(pool, name, bytes) of a VM's volumes that are larger in a spec."""
    for (pool, name), old, new in zip(vm.volumes, vm.spec.disks, spec.disks, strict=False):
        if new.size_bytes > old.size_bytes:
            yield pool, name, new.size_bytes


def grown_disks(vm: VmRecord, spec: VmSpec) -> Iterator[tuple[str, tuple[str, str], int]]:
    """(what the guest calls it, volume, bytes) of a VM's disks that are larger in a spec."""
    sizes = {(pool, name): size for pool, name, size in grown_volumes(vm, spec)}
    for each in attached(vm):
        if (volume := (each.pool, each.name)) in sizes:
            yield each.guest_name, volume, sizes[volume]


def laid_over_name(vm: VmRecord, number: int) -> str:
    """The name of a volume that comes over that of a VM's n-th disk: that of none that it has."""
    taken = {name for _, name in vm.every_volume}
    extension = vm.spec.disks[number].format
    names = (volume_name(vm.name, vm.id, f"{number}.{n}", extension) for n in count(1))
    return next(name for name in names if name not in taken)


def _plan(disk: DiskSpec, name: str, site: VmSite) -> VolumePlan:
    if disk.source is None:
        return VolumePlan(
            pool=disk.pool, name=name, capacity_bytes=disk.size_bytes, format=disk.format
        )
    pool, source = disk.source
    return VolumePlan(
        pool=disk.pool,
        name=name,
        capacity_bytes=disk.size_bytes,
        format=disk.format,
        mode=DiskMode.OVERLAY if disk.is_overlay else DiskMode.COPY,
        source=source,
        source_path=volume_path(site.facts, pool, source) if disk.is_overlay else None,
        source_format=disk.source_format,
        source_pool="" if pool == disk.pool else pool,
    )


def seed_volumes(spec: VmSpec, vm_id: str) -> tuple[VolumePlan, ...]:
    """The volume of the cloud-init seed, where there is one."""
    if spec.cloud_init is None:
        return ()
    name = volume_name(spec.name, vm_id, len(spec.disks), "iso")
    pool = spec.cloud_init.pool
    return (VolumePlan(pool=pool, name=name, capacity_bytes=SEED_BYTES, format="raw"),)
