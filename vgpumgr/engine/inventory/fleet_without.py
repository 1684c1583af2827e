"""The fleet as it would be if some VMs had released what they hold. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from vgpumgr.engine.inventory.host_supply import build_fleet, where_held
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.gpu import GpuFacts, GpuRecord, VfFacts
from vgpumgr.model.host import HostFacts, HostRecord, NumaNode
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply
from vgpumgr.model.vm import VmRecord


def fleet_without(view: LedgerView, ids: Collection[str]) -> Fleet:
    """The supply if these VMs (by id) held nothing. Of the GPUs that they are on the driver's own
    counts are left out: it counts with them there.
    """
    fleet = build_fleet(view_without(view, ids))
    touched = {each.gpu for each in view.allocations if each.vm_id in ids}
    return Fleet(hosts=tuple(replace(host, gpus=_uncounted(host, touched)) for host in fleet.hosts))


def _uncounted(host: HostSupply, touched: Collection[str]) -> tuple[GpuSupply, ...]:
    return tuple(replace(gpu, available={}) if gpu.id in touched else gpu for gpu in host.gpus)


def view_without(view: LedgerView, ids: Collection[str]) -> LedgerView:
    """The view without these VMs (by id), and without what of them the hosts show.

    GPU instances that were made for them go with the last of them that is in one.
    """
    gone: dict[str, list[VmRecord]] = {}
    for vm in where_held(vm for vm in view.vms if vm.id in ids):
        gone.setdefault(vm.host, []).append(vm)
    kept = tuple(each for each in view.allocations if each.vm_id not in ids)
    taken = [each for each in view.allocations if each.vm_id in ids]
    devices = {each.device for each in taken}
    off, on = _by_gpu(taken), _by_gpu(kept)
    return replace(
        view,
        hosts=tuple(_host(host, gone.get(host.name, []), devices) for host in view.hosts),
        gpus=tuple(_gpu(gpu, off.get(gpu.id, []), on.get(gpu.id, [])) for gpu in view.gpus),
        vms=tuple(vm for vm in view.vms if vm.id not in ids),
        allocations=kept,
    )


def _by_gpu(allocations: Iterable[Allocation]) -> dict[str, list[Allocation]]:
    found: dict[str, list[Allocation]] = {}
    for each in allocations:
        found.setdefault(each.gpu, []).append(each)
    return found


def _host(host: HostRecord, gone: Sequence[VmRecord], devices: Collection[str]) -> HostRecord:
    if host.facts is None or not gone:
        return host
    return replace(host, facts=_facts(host.facts, gone, devices))


def _facts(facts: HostFacts, gone: Sequence[VmRecord], devices: Collection[str]) -> HostFacts:
    names, ids = {vm.name for vm in gone}, {vm.id for vm in gone}
    return replace(
        facts,
        claims=tuple(each for each in facts.claims if each.allocation not in ids),
        domains=tuple(each for each in facts.domains if each.name not in names),
        mdevs=tuple(each for each in facts.mdevs if each.uuid not in devices),
        numa=tuple(_node(node, gone) for node in facts.numa),
    )


def _node(node: NumaNode, gone: Sequence[VmRecord]) -> NumaNode:
    """The node with its huge pages free again; a VM bound to no node frees none, for its node is
    unknown.
    """
    free = dict(node.hugepages_free)
    for vm in gone:
        size = vm.spec.hugepage_kib
        if size in free and vm.numa_node == node.id:
            free[size] += -(-vm.spec.memory_mib * 1024 // size)
    return replace(node, hugepages_free=free)


def _gpu(gpu: GpuRecord, taken: Sequence[Allocation], kept: Sequence[Allocation]) -> GpuRecord:
    if not taken:
        return gpu
    devices = {each.device for each in taken}
    held = {each.instance.start for each in kept if each.instance}
    made = {each.instance.start for each in taken if each.instance and each.instance.make}
    facts = replace(
        _without_instances(gpu.facts, made - held),
        vfs=tuple(_vf(vf, empty=vf.address in devices) for vf in gpu.facts.vfs),
    )
    return replace(gpu, facts=facts)


def _without_instances(gpu: GpuFacts, starts: Collection[int]) -> GpuFacts:
    if gpu.mig is None or gpu.mig.instances is None:
        return gpu
    left = tuple(each for each in gpu.mig.instances if each.start not in starts)
    return replace(gpu, mig=replace(gpu.mig, instances=left))


def _vf(vf: VfFacts, *, empty: bool) -> VfFacts:
    """The VF without its driver's counts: with less on the GPU the driver would give others."""
    if vf.vendor is None:
        return vf
    vendor = replace(vf.vendor, creatable=None)
    if empty:
        vendor = replace(vendor, type_id=0, instance=None, placement_id=None)
    return replace(vf, vendor=vendor)
