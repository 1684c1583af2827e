"""A VM's first disk replaced by one of a new image; all else of the VM stays.

The VM keeps its id, and with it UUID and MACs, its other disks and its GPU parts; the disk that it
had is deleted last, when it runs from the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.reservation.domain_plan import domain_xml
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.engine.reservation.vm_creation import VmSites
from vgpumgr.engine.reservation.vm_volumes import new_first_volume
from vgpumgr.engine.steps.domain_steps import RedefineDomain, StartDomain, StopForNow
from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.steps.volume_steps import DeleteReplaced
from vgpumgr.engine.storage.storage_drivers import create_volume
from vgpumgr.model.operation import (
    REIMAGE,
    Reservation,
)
from vgpumgr.model.vm import VmRecord, VmState
from vgpumgr.model.vm_devices import DiskSpec


def reimage_reservation(
    disks: Mapping[str, DiskSpec], view: LedgerView, opening: OperationOpening, stop: StopManner
) -> Reservation:
    """VMs (by id) are stopped, get a volume for this disk in the place of their first, and started.

    Where a host refuses that, they are started with the disk that they had.
    """
    operation, sites = opening.operation("reimage"), VmSites(view)
    vms = [vm for vm in view.vms if vm.id in disks]
    return Reservation(
        operation=operation,
        tasks=tuple(
            opening.task(
                operation,
                REIMAGE,
                _steps(vm, disks[vm.id], sites, stop),
                vm_id=vm.id,
                vm=vm.name,
                host=vm.host,
            )
            for vm in vms
        ),
        changed_vms=tuple(replace(vm, state=VmState.RESERVED) for vm in vms),
    )


def _steps(vm: VmRecord, disk: DiskSpec, sites: VmSites, stop: StopManner) -> tuple[Step, ...]:
    site, (old, *others) = sites.site(vm.host), vm.volumes
    spec = replace(vm.spec, disks=(disk, *vm.spec.disks[1:]))
    made = new_first_volume(replace(vm, spec=spec), site)
    new = replace(
        vm,
        spec=spec,
        volumes=((made.pool, made.name), *others),
        generation=vm.generation + 1,
    )
    autostart = site.autostarts(vm.spec)
    return (
        create_volume(made, site.facts),
        StopForNow(
            name=vm.name,
            vm_id=vm.id,
            force=stop.force,
            timeout_s=stop.timeout_s,
            at_last=stop.at_last,
        ),
        RedefineDomain(
            name=vm.name,
            vm_id=vm.id,
            xml=domain_xml(new, sites.allocations(vm), site),
            old_xml=sites.definition(vm),
            autostart=autostart,
            old_autostart=autostart,
        ),
        StartDomain(name=vm.name, vm_id=vm.id),
        DeleteReplaced(pool=old[0], name=old[1]),
    )
