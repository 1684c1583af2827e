"""Autostart: which VMs libvirt starts with their host, none on a host that can be fenced."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.operations.operation_records import OperationOpening
from vgpumgr.engine.steps.evacuation_steps import SetAutostart
from vgpumgr.model.host import HostRecord
from vgpumgr.model.operation import Reservation
from vgpumgr.model.vm import VmRecord, VmSpec, VmState


def autostarts(spec: VmSpec, host: HostRecord) -> bool:
    """Whether libvirt starts the VM: never on a host that can be fenced, whose VMs may be elsewhere
    when it boots.
    """
    return spec.autostart and host.fence is None


def is_to_set(vm: VmRecord, host: HostRecord) -> bool:
    """Is it a VM of the host whose flag follows the host's fence block?"""
    return vm.host == host.name and vm.state is VmState.ACTIVE and vm.spec.autostart


def autostart_reservation(
    vms: Sequence[VmRecord], host: HostRecord, opening: OperationOpening
) -> Reservation:
    """The flags of these VMs set or cleared, as follows from the host's fence block."""
    operation = opening.operation("host fence")

    def step(vm: VmRecord) -> SetAutostart:
        return SetAutostart(name=vm.name, vm_id=vm.id, on=autostarts(vm.spec, host))

    return Reservation(
        operation=operation,
        tasks=tuple(
            opening.task(operation, "change", [step(vm)], vm_id=vm.id, vm=vm.name, host=host.name)
            for vm in vms
        ),
    )
