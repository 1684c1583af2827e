"""One host in the ledger beside the same host as observed, and the operations in progress there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from vgpumgr.domainxml import DomainParts
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.operation_lifecycle import unfinished
from vgpumgr.engine.reservation.vm_creation import VmSites
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import DomainFacts, Ownership
from vgpumgr.model.drift import UnreadHost
from vgpumgr.model.gpu import Framework, GpuFacts, GpuRecord
from vgpumgr.model.host import HostFacts
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import OperationRecord, TaskRecord
from vgpumgr.model.vm import VmRecord, VmState


@dataclass(frozen=True, slots=True)
class DomainDefinition:
    """A definition as libvirt has it: its parts, and the mark it carries."""

    parts: DomainParts
    mark: Ownership | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainReads:
    """What was read of a host's domains: ``definitions`` by the VM's name, the devices of running
    domains, and ``volumes``: does a volume (pool, name) exist?

    ``not_read`` names the domains and volumes that could not be read.
    """

    facts: HostFacts
    definitions: Mapping[str, DomainDefinition] = field(default_factory=dict)
    running_devices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    volumes: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    not_read: tuple[UnreadHost, ...] = ()


@dataclass(frozen=True, slots=True)
class OperationsInProgress:
    """``busy`` are tasks that ran during the look, ``interrupted`` tasks have no live worker."""

    busy: tuple[TaskRecord, ...] = ()
    interrupted: tuple[TaskRecord, ...] = ()

    @property
    def touched(self) -> frozenset[str]:
        """Ids of VMs (of GPUs, for layouts) that need not be as their records say."""
        return frozenset(task.vm_id for task in (*self.busy, *self.interrupted))

    @property
    def names(self) -> frozenset[str]:
        """Names of VMs (of GPUs, for layouts): a VM that was deleted meanwhile has no record any
        more.
        """
        return frozenset(task.vm for task in (*self.busy, *self.interrupted))


def open_operations(ledger: Ledger) -> frozenset[str]:
    """The operations that are open."""
    return frozenset(each.id for each in ledger.operations(open_only=True))


def operations_in_progress(
    ledger: Ledger, since: float, open_before: Collection[str]
) -> OperationsInProgress:
    """Tasks that were worked on after ``since`` (Unix seconds), and tasks without a live worker.

    Only an operation that was open before the look can be interrupted: a newer one may not have
    been claimed yet by the process that has just begun it.
    """
    busy: list[TaskRecord] = []
    left: list[TaskRecord] = []
    for operation in ledger.operations():
        if operation.ended_at is not None and operation.ended_at <= since:
            continue
        tasks = ledger.tasks(operation.id)
        if operation.id in open_before and _is_interrupted(ledger, operation):
            left += unfinished(tasks)
        else:
            busy += tasks
    return OperationsInProgress(tuple(busy), tuple(left))


def _is_interrupted(ledger: Ledger, operation: OperationRecord) -> bool:
    if operation.ended_at is not None or ledger.is_worked_on(operation.id):
        return False
    # Its worker may have let go because it was done.
    return ledger.operation(operation.id).ended_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedHost:
    """A host in the ledger, and the host as read: ``vms`` to compare, ``held`` are all its
    allocations.

    ``gpus`` by the fleet's id, ``own_gpus`` the host's, ``ours`` the fleet's VMs by id,
    ``declared`` GPUs that have a layout.
    """

    fleet: str
    seen: DomainReads
    vms: tuple[VmRecord, ...]
    held: tuple[Allocation, ...]
    gpus: Mapping[str, GpuRecord]
    own_gpus: tuple[GpuRecord, ...]
    ours: Mapping[str, VmRecord]
    declared: frozenset[str]
    work: OperationsInProgress
    sites: VmSites

    @property
    def host(self) -> str:
        """The host's name."""
        return self.seen.facts.host

    @property
    def facts(self) -> HostFacts:
        """The facts of the host's probe."""
        return self.seen.facts

    def unread(self, *parts: str) -> bool:
        """Could one of these parts of the probe not be read?"""
        return any(unknown.part in parts for unknown in self.facts.unknown)

    def device_of(self, allocation: Allocation) -> str:
        """The name on the host of the GPU that an allocation is on."""
        record = self.gpus.get(allocation.gpu)
        return record.facts.device if record else ""

    def gpu_of(self, allocation: Allocation) -> GpuFacts | None:
        """The GPU that an allocation is on, as the probe saw it; None where it did not."""
        device = self.device_of(allocation)
        return next((gpu for gpu in self.facts.gpus if gpu.device == device), None)

    def is_ours(self, domain: DomainFacts) -> bool:
        """Does a domain carry the mark of one of our VMs?"""
        mark = domain.ownership
        return mark is not None and mark.fleet == self.fleet and mark.vm_id in self.ours

    def to_compare(self) -> tuple[tuple[VmRecord, Allocation], ...]:
        """The allocations of the VMs to compare."""
        vms = {vm.id: vm for vm in self.vms}
        return tuple((vms[each.vm_id], each) for each in self.held if each.vm_id in vms)


def compared_hosts(
    view: LedgerView, seen: Mapping[str, DomainReads], work: OperationsInProgress
) -> tuple[ComparedHost, ...]:
    """A side for every host that was seen."""
    locations, gpus = VmSites(view), {gpu.id: gpu for gpu in view.gpus}
    ours = {vm.id: vm for vm in view.vms}
    touched, declared = work.touched, frozenset(record.gpu for record in view.layouts)
    vms: dict[str, list[VmRecord]] = {}
    held: dict[str, list[Allocation]] = {}
    own: dict[str, list[GpuRecord]] = {}
    for vm in view.vms:
        if vm.state is VmState.ACTIVE and vm.id not in touched:
            vms.setdefault(vm.host, []).append(vm)
    for allocation in view.allocations:
        held.setdefault(allocation.host, []).append(allocation)
    for gpu in view.gpus:
        own.setdefault(gpu.host, []).append(gpu)
    return tuple(
        ComparedHost(
            fleet=view.fleet,
            seen=found,
            vms=tuple(vms.get(host, ())),
            held=tuple(held.get(host, ())),
            gpus=gpus,
            own_gpus=tuple(own.get(host, ())),
            ours=ours,
            declared=declared,
            work=work,
            sites=locations,
        )
        for host, found in seen.items()
    )


def defined_anew(host: str, vm: str) -> str:
    """How a definition is made as the ledger has it."""
    forget = f"virsh undefine --keep-nvram --keep-tpm {vm}"
    return f"vgpumgr vm stop {vm}; on {host}: {forget}; vgpumgr vm start {vm}"


def removal_commands(host: str, allocation: Allocation) -> str:
    """How the device of an allocation is taken away on its host, with its VM off."""
    device = allocation.device
    match Framework(allocation.framework):
        case Framework.MDEV:
            command = mdev_removal(device)
        case Framework.VFIO_VF:
            command = vgpu_removal(device)
        case _:
            name = device.replace(":", "_").replace(".", "_")
            command = f"virsh nodedev-reattach pci_{name}"
    return f"vgpumgr vm stop {allocation.vm}; on {host}: {command}"


def mdev_removal(uuid: str) -> str:
    """Removes an mdev; needs neither mdevctl nor a definition of it."""
    return f"echo 1 > /sys/bus/mdev/devices/{uuid}/remove"


def vgpu_removal(vf: str) -> str:
    """Ends the vGPU on a VF."""
    return f"echo 0 > /sys/bus/pci/devices/{vf}/nvidia/current_vgpu_type"
