"""Sites: hosts as the places where VMs are created and started."""

from __future__ import annotations

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.reservation.domain_plan import domain_xml
from vgpumgr.engine.reservation.vm_steps import made_for_vms, start_steps
from vgpumgr.engine.reservation.vm_volumes import Site
from vgpumgr.engine.steps import Step
from vgpumgr.model.errors import NotFound
from vgpumgr.model.vm import Allocation, VmRecord


class Sites:
    """The view's hosts as sites, and each VM's allocations."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._hosts = {host.name: host for host in view.hosts}
        self._gpus = {gpu.id: gpu for gpu in view.gpus}
        self._held: dict[str, list[Allocation]] = {}
        for allocation in view.allocations:
            self._held.setdefault(allocation.vm_id, []).append(allocation)
        self._made = made_for_vms(view)

    def site(self, host: str) -> Site:
        """The site of a host; NotFound when it was never probed."""
        record = self._hosts[host]
        if record.facts is None:
            raise NotFound(f"host {host} was never probed", next=f"vgpumgr host probe {host}")
        return Site(self._view.fleet, record, record.facts, self._gpus, self._made)

    def allocations(self, vm: VmRecord) -> tuple[Allocation, ...]:
        """What a VM holds."""
        return tuple(self._held.get(vm.id, ()))

    def power_on(self, vm: VmRecord) -> tuple[Step, ...]:
        """Devices, their NVSwitch partition, then power."""
        return start_steps(vm, self.allocations(vm), self.site(vm.host).modules)

    def definition(self, vm: VmRecord) -> str:
        """A VM's domain XML."""
        return domain_xml(vm, self.allocations(vm), self.site(vm.host))
