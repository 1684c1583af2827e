"""The transaction of `vm rename`.

Meanwhile the VM is marked as moving, to the same place under another name: nothing else touches
it, no other VM gets either name, and what ends the operation makes it one or the other.
"""

from __future__ import annotations

from dataclasses import replace

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.engine.reservation.vm_creation import VmSites
from vgpumgr.engine.steps.domain_steps import StartDomain
from vgpumgr.engine.steps.nic_steps import RenameNicClaims
from vgpumgr.engine.steps.rename_steps import RenameClaim, RenameDomain
from vgpumgr.engine.steps.snapshot_steps import StopToRevert
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.operation import RENAME, Reservation
from vgpumgr.model.vm import VmPlace, VmRecord, VmState


def rename_reservation(
    vm: VmRecord, name: str, stop: StopManner | None, view: LedgerView, opening: OperationOpening
) -> Reservation:
    """The VM's domain is defined by its new name; volumes, allocations and UUID stay. With ``stop``
    it is stopped so first, and started again.
    """
    operation, sites = opening.operation("vm rename"), VmSites(view)
    spec = replace(vm.spec, name=name)
    there = replace(vm, spec=spec, generation=vm.generation + 1)
    steps: tuple[Step, ...] = (
        *([_stopped(vm, stop)] if stop else []),
        RenameDomain(
            old_name=vm.name,
            name=name,
            vm_id=vm.id,
            xml=sites.definition(there),
            old_xml=sites.definition(vm),
            autostart=sites.site(vm.host).autostarts(spec),
        ),
        *(
            RenameClaim(allocation=replace(each, vm=name), old_name=vm.name)
            for each in sites.allocations(vm)
        ),
        *([RenameNicClaims(name=name, old_name=vm.name, vm_id=vm.id)] if vm.nic_functions else []),
        *([StartDomain(name=name, vm_id=vm.id)] if stop else []),
    )
    to = VmPlace(
        host=vm.host,
        numa_node=vm.numa_node,
        cpus=vm.cpus,
        spec=spec,
        parts_stay=True,
        nic_functions=vm.nic_functions,
    )
    return Reservation(
        operation=operation,
        tasks=(opening.task(operation, RENAME, steps, vm_id=vm.id, vm=vm.name, host=vm.host),),
        changed_vms=(replace(vm, state=VmState.MIGRATING, moving_to=to),),
        host_generations=view.generations({vm.host}),
    )


def _stopped(vm: VmRecord, stop: StopManner) -> Step:
    return StopToRevert(
        name=vm.name,
        vm_id=vm.id,
        force=stop.force,
        timeout_s=stop.timeout_s,
        at_last=stop.at_last,
    )
