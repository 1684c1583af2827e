"""The ledger and the hosts as they would be if some VMs were gone. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from vgpumgr.engine.view import LedgerView
from vgpumgr.engine.whatif.bare import emptied, uncounted
from vgpumgr.model.gpu import GpuFacts, GpuRecord, MigFacts
from vgpumgr.model.host import HostRecord
from vgpumgr.model.vm import Allocation, VmRecord, VmState

Place = tuple[str, str]
"""Host and name of a domain, or host and device of a part."""


def without(view: LedgerView, names: Collection[str]) -> LedgerView:
    """VMs of these names with all they hold taken out, of the ledger and of what hosts show."""
    gone = [vm for vm in view.vms if vm.name in names]
    held = [each for each in view.allocations if each.vm in names]
    left = tuple(each for each in view.allocations if each.vm not in names)
    domains = {(host, vm.name) for vm in gone for host in places(vm)}
    devices = {(each.host, each.device) for each in held}
    instances = _instances(held) - _instances(left)
    return replace(
        view,
        hosts=tuple(_host(host, domains, devices) for host in view.hosts),
        gpus=tuple(_gpu(gpu, devices, instances) for gpu in view.gpus),
        vms=tuple(vm for vm in view.vms if vm.name not in names),
        allocations=left,
    )


def shelved(view: LedgerView, vm: VmRecord) -> LedgerView:
    """The same with the VM stopped, its GPU parts given back."""
    rest = without(view, {vm.name})
    return replace(rest, vms=(*rest.vms, replace(vm, state=VmState.SHELVED, running=False)))


def places(vm: VmRecord) -> tuple[str, ...]:
    """The hosts where it holds something."""
    return (vm.host, vm.moving_to.host) if vm.moving_to else (vm.host,)


def _instances(held: Collection[Allocation]) -> set[tuple[str, int]]:
    """GPU instances that allocations made: GPU and first slice."""
    parts = ((each.gpu, each.instance) for each in held)
    return {(gpu, part.start) for gpu, part in parts if part is not None and part.make}


def _host(host: HostRecord, domains: Collection[Place], devices: Collection[Place]) -> HostRecord:
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


def _gpu(
    gpu: GpuRecord, devices: Collection[Place], instances: Collection[tuple[str, int]]
) -> GpuRecord:
    facts = gpu.facts
    vfs = tuple(emptied(vf) if (gpu.host, vf.address) in devices else vf for vf in facts.vfs)
    facts = replace(facts, vfs=vfs, mig=_mig(gpu.id, facts, instances))
    return replace(gpu, facts=uncounted(facts))


def _mig(gpu: str, facts: GpuFacts, instances: Collection[tuple[str, int]]) -> MigFacts | None:
    mig = facts.mig
    if mig is None or mig.instances is None:
        return mig
    left = tuple(each for each in mig.instances if (gpu, each.start) not in instances)
    return replace(mig, instances=left)
