"""VMs as the reading commands show them: the ledger's, and the foreign domains beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vgpumgr.cli.ages import observed_ats, observed_states
from vgpumgr.cli.context import Context
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.host import HostRecord
from vgpumgr.model.vm import Allocation, VmRecord


def vm_item(
    vm: VmRecord, held: Sequence[Allocation], power: str, observed_at: float | None
) -> dict[str, Any]:
    """The JSON of a VM. ``power`` is what its host showed at ``observed_at``."""
    return {
        "name": vm.name,
        "id": vm.id,
        "host": vm.host,
        "state": str(vm.state),
        "power": power,
        "observed_at": observed_at,
        "wanted_running": vm.running,
        "vcpus": vm.spec.vcpus,
        "memory_mib": vm.spec.memory_mib,
        "tenant": vm.spec.tenant,
        "labels": dict(vm.spec.labels),
        "gpus": [
            {
                "profile": each.profile,
                "framework": each.framework,
                "gpu": each.gpu,
                "device": each.device,
                "parent": each.parent,
                "state": str(each.state),
            }
            for each in held
        ],
        "volumes": [{"pool": pool, "name": name} for pool, name in vm.volumes],
        "cpus": list(vm.cpus),
        "numa_node": vm.numa_node,
        "owner": "vgpumgr",
    }


def vm_items(context: Context) -> list[dict[str, Any]]:
    """Our VMs, then the foreign domains of the last observation."""
    ledger = context.app.ledger
    held: dict[str, list[Allocation]] = {}
    for allocation in ledger.allocations():
        held.setdefault(allocation.vm_id, []).append(allocation)
    vms, hosts = ledger.vms(), ledger.hosts()
    states, seen = observed_states(hosts), observed_ats(hosts)
    ours = {(vm.host, vm.name) for vm in vms}
    items = [
        vm_item(
            vm,
            held.get(vm.id, ()),
            states.get((vm.host, vm.name), "unknown"),
            seen.get(vm.host),
        )
        for vm in vms
    ]
    foreign = [
        _foreign(host, domain)
        for host in hosts
        if host.facts
        for domain in host.facts.domains
        if (host.name, domain.name) not in ours
    ]
    return [*items, *foreign]


def _foreign(host: HostRecord, domain: DomainFacts) -> dict[str, Any]:
    return {
        "name": domain.name,
        "id": domain.uuid,
        "host": host.name,
        "state": "foreign",
        "power": str(domain.state),
        "observed_at": host.observed_at,
        "wanted_running": None,
        "vcpus": domain.vcpus,
        "memory_mib": domain.memory_mib,
        "tenant": "",
        "labels": {},
        "gpus": [
            {"profile": "?", "framework": "", "gpu": "", "device": device, "parent": ""}
            for device in domain.devices
        ],
        "volumes": [],
        "cpus": [],
        "numa_node": None,
        "owner": "foreign",
    }
