"""The steps that bring up a VM's devices and power, and those that take a VM away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpumgr.engine.inventory.gpu_usage import claim_unit
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.steps import (
    ActivatePartition,
    DeactivatePartition,
    DeleteVolume,
    RealiseDevice,
    ReleaseDevice,
    StartDomain,
    Step,
    UndefineDomain,
)
from vgpumgr.model.vm import Allocation, InstancePart, VmRecord


def made_for_vms(view: LedgerView) -> dict[str, frozenset[int]]:
    """Starts of the GPU instances that were created for VMs, by GPU's id."""
    claims = {
        (host.name, claim.unit): claim.wanted.get("instance")
        for host in view.hosts
        for claim in (host.facts.claims if host.facts else ())
        if claim.fleet == view.fleet
    }
    found: dict[str, set[int]] = {}
    for allocation in view.allocations:
        claimed = claims.get((allocation.host, claim_unit(allocation)))
        if allocation.instance is not None and _made(allocation.instance, claimed):
            found.setdefault(allocation.gpu, set()).add(allocation.instance.start)
    return {gpu: frozenset(starts) for gpu, starts in found.items()}


def _made(part: InstancePart, claimed: object) -> bool:
    """Whose instance it is, the claim knows: VMs that share one hand it on as they go."""
    return bool(claimed["make"]) if isinstance(claimed, dict) else part.make


def delete_steps(
    vm: VmRecord, allocations: Sequence[Allocation], *, keep_disks: bool
) -> tuple[Step, ...]:
    """Power off, forget, delete the volumes made for it, give the devices back."""
    volumes = () if keep_disks else vm.volumes
    return (
        UndefineDomain(name=vm.name, vm_id=vm.id),
        *(DeleteVolume(pool=pool, name=name) for pool, name in volumes),
        *release_steps(allocations),
    )


def release_steps(allocations: Sequence[Allocation]) -> tuple[Step, ...]:
    """The NVSwitch partition, then the devices."""
    return (
        *(
            DeactivatePartition(partition=number, allocation=owner)
            for number, owner in _partitions(allocations).items()
        ),
        *(ReleaseDevice(allocation=allocation) for allocation in allocations),
    )


def device_steps(
    allocations: Sequence[Allocation], modules: Mapping[str, int | None]
) -> tuple[Step, ...]:
    """Devices, then the NVSwitch partition of whole GPUs; ``modules`` are physical ids by GPU."""
    numbers = {a.id: modules.get(a.gpu) for a in allocations if a.partition is not None}
    return (
        *(RealiseDevice(allocation=allocation) for allocation in allocations),
        *(
            ActivatePartition(
                partition=number,
                gpus=tuple(sorted(each for each in numbers.values() if each is not None)),
                allocation=owner,
            )
            for number, owner in _partitions(allocations).items()
        ),
    )


def start_steps(
    vm: VmRecord, allocations: Sequence[Allocation], modules: Mapping[str, int | None]
) -> tuple[Step, ...]:
    """Devices first: a host reboot forgets them, and they come back with the same identity."""
    return (*device_steps(allocations, modules), StartDomain(name=vm.name, vm_id=vm.id))


def _partitions(allocations: Sequence[Allocation]) -> dict[int, Allocation]:
    """Each partition with the allocation whose claim it carries: the least id, in any order."""
    found: dict[int, Allocation] = {}
    for allocation in sorted(allocations, key=lambda each: each.id):
        if allocation.partition is not None:
            found.setdefault(allocation.partition, allocation)
    return found
