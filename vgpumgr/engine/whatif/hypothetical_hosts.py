"""Ledger and hosts as they would be with hosts added, VMs gone, and GPUs empty."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.inventory.observation import with_budgets
from vgpumgr.engine.planning.hypothetical_layouts import goals, in_words, partitioned
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.gpu import GpuFacts, GpuRecord, GpuState, MigFacts, VfFacts
from vgpumgr.model.health import NO_EVIDENCE, NO_READINGS
from vgpumgr.model.host import HostFacts, HostRecord, Membership
from vgpumgr.model.layout import GpuLayout
from vgpumgr.model.vm import VmRecord, VmState


def uncounted_gpu(gpu: GpuFacts) -> GpuFacts:
    """Without the driver's counts of what it would still make: they are of before."""
    return replace(
        gpu,
        mdev_types=tuple(replace(each, available=None) for each in gpu.mdev_types),
        vfs=tuple(map(_uncounted, gpu.vfs)),
    )


def emptied_gpu(vf: VfFacts) -> VfFacts:
    """A VF without its vGPU."""
    if vf.vendor is None:
        return vf
    return replace(vf, vendor=replace(vf.vendor, type_id=0, instance=None, placement_id=None))


def _uncounted(vf: VfFacts) -> VfFacts:
    types = tuple(replace(each, available=None) for each in vf.mdev_types)
    return replace(vf, mdev_types=types, vendor=vf.vendor and replace(vf.vendor, creatable=None))


Place = tuple[str, str]
"""Host and name of a domain, or host and device of a part."""


def view_without_vms(view: LedgerView, names: Collection[str]) -> LedgerView:
    """VMs of these names with all they hold taken out, of the ledger and of what hosts show."""
    gone = [vm for vm in view.vms if vm.name in names]
    held = [each for each in view.allocations if each.vm in names]
    left = tuple(each for each in view.allocations if each.vm not in names)
    domains = {(host, vm.name) for vm in gone for host in hosts_of(vm)}
    devices = {(each.host, each.device) for each in held}
    instances = _instances(held) - _instances(left)
    return replace(
        view,
        hosts=tuple(_host_without(host, domains, devices) for host in view.hosts),
        gpus=tuple(_gpu_without(gpu, devices, instances) for gpu in view.gpus),
        vms=tuple(vm for vm in view.vms if vm.name not in names),
        allocations=left,
    )


def view_with_shelved(view: LedgerView, vm: VmRecord) -> LedgerView:
    """The view with the VM stopped, its GPU parts released."""
    rest = view_without_vms(view, {vm.name})
    return replace(rest, vms=(*rest.vms, replace(vm, state=VmState.SHELVED, running=False)))


def hosts_of(vm: VmRecord) -> tuple[str, ...]:
    """The hosts where it holds something."""
    return (vm.host, vm.moving_to.host) if vm.moving_to else (vm.host,)


def _instances(held: Collection[Allocation]) -> set[tuple[str, int]]:
    """GPU instances that allocations made: GPU and first slice."""
    parts = ((each.gpu, each.instance) for each in held)
    return {(gpu, part.start) for gpu, part in parts if part is not None and part.make}


def _host_without(
    host: HostRecord, domains: Collection[Place], devices: Collection[Place]
) -> HostRecord:
    facts = host.facts
    if facts is None:
        return host
    name = host.name
    shown = replace(
        facts,
        domains=tuple(each for each in facts.domains if (name, each.name) not in domains),
        mdevs=tuple(each for each in facts.mdevs if (name, each.uuid) not in devices),
    )
    return replace(host, facts=shown)


def _gpu_without(
    gpu: GpuRecord, devices: Collection[Place], instances: Collection[tuple[str, int]]
) -> GpuRecord:
    facts = gpu.facts
    vfs = tuple(emptied_gpu(vf) if (gpu.host, vf.address) in devices else vf for vf in facts.vfs)
    facts = replace(facts, vfs=vfs, mig=_mig(gpu.id, facts, instances))
    return replace(gpu, facts=uncounted_gpu(facts))


def _mig(gpu: str, facts: GpuFacts, instances: Collection[tuple[str, int]]) -> MigFacts | None:
    mig = facts.mig
    if mig is None or mig.instances is None:
        return mig
    left = tuple(each for each in mig.instances if (gpu, each.start) not in instances)
    return replace(mig, instances=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOption:
    """New hosts with their GPUs, and how these are partitioned, in words."""

    hosts: tuple[HostRecord, ...]
    gpus: tuple[GpuRecord, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedHosts:
    """New hosts, once for each way to partition their GPUs; at least one."""

    options: tuple[HostOption, ...]


def hosts_like(view: LedgerView, name: str, count: int, taken: Collection[str] = ()) -> AddedHosts:
    """``count`` empty hosts like that one, with labels and partitioning, called ``NAME-new-1``…,
    by names that are not a host's yet and not ``taken``.
    """
    here = emptied(by_host(view)[name])
    known = {*(host.name for host in view.hosts), *taken}
    free = (each for n in itertools.count(1) if (each := f"{name}-new-{n}") not in known)
    names = list(itertools.islice(free, count))
    hosts = tuple(replace(here.hosts[0], name=each) for each in names)
    gpus = tuple(
        replace(gpu, id=f"{each}/{gpu.facts.device}", host=each)
        for each in names
        for gpu in here.gpus
    )
    text = f"like {name}, empty, partitioned as there"
    return AddedHosts(options=(HostOption(hosts=hosts, gpus=gpus, text=text),))


def hosts_from_probes(probed: Iterable[HostFacts]) -> AddedHosts:
    """Hosts as a first probe shows them, and with their GPUs partitioned otherwise."""
    hosts, gpus = [], []
    for facts in probed:
        seen, slots = with_budgets(facts, {})
        hosts.append(HostRecord(name=facts.host, address="", facts=seen))
        gpus += [
            GpuRecord(
                id=f"{facts.host}/{each.device}",
                host=facts.host,
                facts=each,
                units=slots[each.device],
            )
            for each in seen.gpus
        ]
    as_found = HostOption(hosts=tuple(hosts), gpus=tuple(gpus), text="partitioned as found")
    return AddedHosts(options=(as_found, *_partitioned(as_found)))


def _partitioned(found: HostOption) -> Iterator[HostOption]:
    """One option per way that some of the GPUs can be partitioned in."""
    kernels = {host.name: host.facts.versions.kernel for host in found.hosts if host.facts}
    ways = dict.fromkeys(goal for gpu in found.gpus for goal in goals(gpu.facts))
    for goal in ways:
        changed = [_as(gpu, goal, kernels[gpu.host]) for gpu in found.gpus]
        if changed != list(found.gpus):
            yield HostOption(
                hosts=found.hosts, gpus=tuple(changed), text=f"with a layout: {in_words(goal)}"
            )


def _as(gpu: GpuRecord, goal: GpuLayout, kernel: str) -> GpuRecord:
    return (goal in goals(gpu.facts) and partitioned(gpu, goal, kernel)) or gpu


def by_host(view: LedgerView) -> dict[str, LedgerView]:
    """The parts of a view that are about one host each."""
    gpus, vms = defaultdict[str, list[GpuRecord]](list), defaultdict[str, list[VmRecord]](list)
    held = defaultdict[str, list[Allocation]](list)
    for gpu in view.gpus:
        gpus[gpu.host].append(gpu)
    for vm in view.vms:
        for name in hosts_of(vm):
            vms[name].append(vm)
    for each in view.allocations:
        held[each.host].append(each)
    return {
        host.name: replace(
            view,
            hosts=(host,),
            gpus=tuple(gpus[host.name]),
            vms=tuple(vms[host.name]),
            allocations=tuple(held[host.name]),
            layouts=tuple(layout for layout in view.layouts if layout.host == host.name),
        )
        for host in view.hosts
    }


def emptied(view: LedgerView) -> LedgerView:
    """A view of one host with nothing on it: no VM, no domain, no vGPU, no foreign device; open.

    How its GPUs are partitioned stays.
    """
    left = view_without_vms(view, {vm.name for vm in view.vms})
    return replace(
        left,
        hosts=tuple(map(_host, left.hosts)),
        gpus=tuple(map(_gpu, left.gpus)),
        vms=(),
        allocations=(),
        layouts=(),
    )


def _host(host: HostRecord) -> HostRecord:
    facts = host.facts and replace(
        host.facts, domains=(), mdevs=(), claims=(), foreign_mdev_definitions=()
    )
    return replace(
        host,
        cordoned=False,
        last_error="",
        settled_boot="",
        membership=Membership.MEMBER,
        facts=facts,
    )


def _gpu(gpu: GpuRecord) -> GpuRecord:
    facts = replace(gpu.facts, vfs=tuple(map(emptied_gpu, gpu.facts.vfs)))
    facts = replace(uncounted_gpu(facts), readings=NO_READINGS)
    return replace(gpu, facts=facts, state=GpuState.HEALTHY, health=NO_EVIDENCE)
