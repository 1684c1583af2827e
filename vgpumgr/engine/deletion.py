"""The steps that take a VM away, and those of a power change. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.engine.steps import (
    DeleteVolume,
    RealiseDevice,
    ReleaseDevice,
    StartDomain,
    Step,
    UndefineDomain,
)
from vgpumgr.model.vm import Allocation, VmRecord


def delete_steps(
    vm: VmRecord, allocations: Iterable[Allocation], *, keep_disks: bool
) -> tuple[Step, ...]:
    """Power off, forget, delete the volumes made for it, give the devices back."""
    volumes = () if keep_disks else vm.volumes
    return (
        UndefineDomain(name=vm.name, vm_id=vm.id),
        *(DeleteVolume(pool=pool, name=name) for pool, name in volumes),
        *(ReleaseDevice(allocation=allocation) for allocation in allocations),
    )


def start_steps(vm: VmRecord, allocations: Iterable[Allocation]) -> tuple[Step, ...]:
    """Devices first: a host reboot forgets them, and they come back with the same identity."""
    return (
        *(RealiseDevice(allocation=allocation) for allocation in allocations),
        StartDomain(name=vm.name, vm_id=vm.id),
    )
