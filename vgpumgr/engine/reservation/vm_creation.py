"""A VM on its site: record, allocations, and the steps that create, start and release it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vgpumgr import gpu
from vgpumgr.engine.inventory.gpu_usage import claim_unit
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.domain_plan import domain_xml, ownership
from vgpumgr.engine.reservation.nic_functions import check_nics, release_nics, take_nics
from vgpumgr.engine.reservation.vm_volumes import VmSite, seed_volumes, volume_plan
from vgpumgr.engine.steps.cloud_init_seed import CreateSeed, filled
from vgpumgr.engine.steps.device_steps import (
    ActivatePartition,
    DeactivatePartition,
    RealiseDevice,
    ReleaseDevice,
)
from vgpumgr.engine.steps.domain_steps import DefineDomain, StartDomain, UndefineDomain
from vgpumgr.engine.steps.filter_steps import DropFilters
from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.steps.tpm_backup import RestoreTpm
from vgpumgr.engine.steps.volume_steps import DeleteVolume
from vgpumgr.engine.storage.storage_drivers import create_volume
from vgpumgr.model.allocation import Allocation, InstancePart
from vgpumgr.model.domain import Ownership, VolumePlan
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.vm import VmRecord, VmSpec, VmState
from vgpumgr.model.vm_backup import tpm_volume_of


def allocate(
    part: Assignment, placed: Placed, vm_id: str, site: VmSite, opening: OperationOpening
) -> Allocation:
    """The allocation of one assignment, under an id of its own."""
    new_id = opening.new_uuid()
    facts = site.gpus[part.gpu].facts
    offer = part.offer
    function = part.vf.address if part.vf else facts.device
    is_mdev = offer.framework is Framework.MDEV
    whole = offer.framework is Framework.PASSTHROUGH
    return Allocation(
        id=new_id,
        vm_id=vm_id,
        vm=placed.request.name,
        host=site.host.name,
        gpu=part.gpu,
        profile=offer.profile,
        framework=offer.framework,
        device=new_id if is_mdev else function,
        slots=part.slots,
        type_id=offer.type_id,
        parent=function if is_mdev else "",
        companions=gpu.companions(facts)[0] if whole else (),
        vf=part.vf.number if part.vf else None,
        instance=_instance(part, site),
        placement_id=part.start if offer.starts and offer.instance is None else None,
        frame_rate_limiter=part.frame_rate_limiter,
        partition=placed.partition if whole else None,
        memory_mib=offer.memory_mib,
        created_at=opening.now,
    )


def _instance(part: Assignment, site: VmSite) -> InstancePart | None:
    offer, facts = part.offer.instance, site.gpus[part.gpu].facts
    if offer is None or part.start is None:
        return None
    return InstancePart(
        gpu=facts.device,
        profile=offer.profile,
        profile_id=offer.profile_id,
        start=part.start,
        size=offer.size,
        make=part.make_instance or not _is_of_layout(part, site),
    )


def _is_of_layout(part: Assignment, site: VmSite) -> bool:
    """Whether the GPU instance exists by a layout, not for a VM: an instance that VMs share may
    have to be recreated by any of them.
    """
    facts = site.gpus[part.gpu].facts
    there = {each.start for each in (facts.mig.instances if facts.mig else None) or ()}
    return part.start in there and part.start not in site.made.get(part.gpu, ())


@dataclass(frozen=True, slots=True)
class VmCreation:
    """The records and steps of one new VM."""

    vm: VmRecord
    allocations: tuple[Allocation, ...]
    steps: tuple[Step, ...]


def create(
    placed: Placed, site: VmSite, opening: OperationOpening, first: Sequence[Step] = ()
) -> VmCreation:
    """The creation of one placed VM; ``first`` are steps that come before its own."""
    spec = placed.request
    vm_id = opening.new_uuid()
    allocations = tuple(allocate(part, placed, vm_id, site, opening) for part in placed.assignments)
    volumes = tuple(volume_plan(spec, vm_id, number, site) for number in range(len(spec.disks)))
    seed = seed_volumes(spec, vm_id)
    vm = VmRecord(
        id=vm_id,
        spec=spec,
        host=site.host.name,
        state=VmState.RESERVED,
        running=True,
        generation=1,
        numa_node=placed.numa_node,
        cpus=placed.cpus,
        nic_functions=placed.nic_functions,
        volumes=tuple((each.pool, each.name) for each in (*volumes, *seed)),
        created_at=opening.now,
    )
    steps = (*first, *_steps(vm, allocations, volumes, seed, site))
    return VmCreation(vm, allocations, steps)


def _steps(
    vm: VmRecord,
    allocations: tuple[Allocation, ...],
    volumes: tuple[VolumePlan, ...],
    seed: tuple[VolumePlan, ...],
    site: VmSite,
) -> tuple[Step, ...]:
    spec = vm.spec
    seeds = tuple(
        CreateSeed(
            plan=plan,
            instance_id=vm.id,
            hostname=spec.name,
            cloud_init=text.withheld(),
            guest=spec.guest,
            driver=site.facts.versions.driver,
        )
        for plan in seed
        if (text := filled(vm)) is not None
    )
    xml = domain_xml(vm, allocations, site)
    return (
        *device_steps(allocations, site.modules),
        *take_nics(vm),
        *(create_volume(plan, site.facts) for plan in volumes),
        *seeds,
        *_tpm_of_backup(vm),
        DefineDomain(name=spec.name, vm_id=vm.id, xml=xml, autostart=site.autostarts(spec)),
        StartDomain(name=spec.name, vm_id=vm.id),
        *check_nics(vm),
    )


def _tpm_of_backup(vm: VmRecord) -> Iterator[Step]:
    """What the TPM of a restored VM held: next to what its first disk is copied from."""
    restored = next((each.restored for each in vm.spec.disks if each.restored), None)
    if vm.spec.tpm and restored is not None:
        pool, volume = restored
        prefix = volume.rpartition("-")[0]
        yield RestoreTpm(
            name=vm.name,
            uuid=vm.domain_uuid,
            pool=pool,
            manifest=f"{prefix}.json",
            volume=tpm_volume_of(prefix),
        )


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
    """Whether the instance was made for VMs, by its claim: VMs that share it hand it on."""
    return bool(claimed["make"]) if isinstance(claimed, dict) else part.make


def delete_steps(
    vm: VmRecord, allocations: Sequence[Allocation], *, keep_disks: bool
) -> tuple[Step, ...]:
    """Power off, forget, delete the volumes made for it, give the devices back."""
    volumes = () if keep_disks else vm.every_volume
    return (
        UndefineDomain(name=vm.name, vm_id=vm.id),
        *(DeleteVolume(pool=pool, name=name) for pool, name in volumes),
        *release_steps(allocations),
        *release_nics(vm),
        *drop_filters(vm.spec),
    )


def drop_filters(spec: VmSpec, but: VmSpec | None = None) -> tuple[Step, ...]:
    """The step that forgets a VM's own network filters, ``but`` for those of what it becomes."""
    kept = but.own_filters if but is not None else ()
    names = tuple(name for name in spec.own_filters if name not in kept)
    return (DropFilters(names=names),) if names else ()


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
    return (
        *device_steps(allocations, modules),
        *take_nics(vm, vm),
        StartDomain(name=vm.name, vm_id=vm.id),
        *check_nics(vm),
    )


def _partitions(allocations: Sequence[Allocation]) -> dict[int, Allocation]:
    """Each partition with the allocation whose claim it carries: the least id, in any order."""
    found: dict[int, Allocation] = {}
    for allocation in sorted(allocations, key=lambda each: each.id):
        if allocation.partition is not None:
            found.setdefault(allocation.partition, allocation)
    return found


class VmSites:
    """The view's hosts as sites, and each VM's allocations."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._hosts = {host.name: host for host in view.hosts}
        self._gpus = {gpu.id: gpu for gpu in view.gpus}
        self._held: dict[str, list[Allocation]] = {}
        for allocation in view.allocations:
            self._held.setdefault(allocation.vm_id, []).append(allocation)
        self._made = made_for_vms(view)

    def site(self, host: str) -> VmSite:
        """The site of a host; NotFound when it was never probed."""
        record = self._hosts[host]
        if record.facts is None:
            raise NotFound(f"host {host} was never probed", next=f"vgpumgr host probe {host}")
        return VmSite(self._view.fleet, record, record.facts, self._gpus, self._made)

    def allocations(self, vm: VmRecord) -> tuple[Allocation, ...]:
        """A VM's allocations."""
        return tuple(self._held.get(vm.id, ()))

    def power_on(self, vm: VmRecord) -> tuple[Step, ...]:
        """Devices, their NVSwitch partition, then power."""
        return start_steps(vm, self.allocations(vm), self.site(vm.host).modules)

    def mark(self, vm: VmRecord) -> Ownership:
        """The mark that a VM's domain carries."""
        return ownership(vm, self.allocations(vm), self._view.fleet)

    def definition(self, vm: VmRecord) -> str:
        """A VM's domain XML."""
        return domain_xml(vm, self.allocations(vm), self.site(vm.host))
