"""VMs of the queue whose guest has powered off: seen to be off, never just not seen. Pure."""

from __future__ import annotations

from collections.abc import Collection

from vgpumgr.engine.planning.plan import reached
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.domain import DomainState
from vgpumgr.model.host import HostRecord
from vgpumgr.model.queued import QueueEntry, QueueState
from vgpumgr.model.vm import VmRecord, VmState


def ended(view: LedgerView, busy: Collection[str] = ()) -> tuple[tuple[QueueEntry, VmRecord], ...]:
    """Entries that run, and whose domain a host shows as shut off that has not booted since, and
    is not being shut down with all its guests.

    Not one whose domain is gone, has crashed, or could not be read; not one that its user stopped;
    none that an operation is about (``busy``, by the VM's id).
    """
    vms = {vm.id: vm for vm in view.vms}
    answered = reached(view)
    hosts = {host.name: host for host in view.hosts if host.name in answered.hosts}
    found = []
    for entry in view.queue:
        vm = vms.get(entry.vm_id)
        if entry.state is not QueueState.RUNNING or vm is None or vm.id in busy:
            continue
        asked_to_run = vm.state is VmState.ACTIVE and vm.running and not vm.definition
        if asked_to_run and vm.host not in answered.resting and _is_off(vm, hosts.get(vm.host)):
            found.append((entry, vm))
    return tuple(found)


def _is_off(vm: VmRecord, host: HostRecord | None) -> bool:
    if host is None or host.facts is None or host.settled_boot != host.facts.boot_id:
        return False
    if host.facts.stopping:
        return False
    for domain in host.facts.domains:
        mark = domain.ownership
        if domain.name == vm.name and mark is not None and mark.vm_id == vm.id:
            return domain.state is DomainState.SHUTOFF
    return False
