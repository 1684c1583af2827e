"""How a host is fenced, and with it who starts its VMs after a boot."""

from __future__ import annotations

from vgpumgr.engine.creation import autostarts
from vgpumgr.engine.running import operations
from vgpumgr.engine.running.opening import Opening
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.steps import SetAutostart
from vgpumgr.engine.use_cases.marks import mark
from vgpumgr.model.fence import Fence
from vgpumgr.model.host import HostRecord
from vgpumgr.model.journal import Reservation
from vgpumgr.model.vm import VmRecord, VmState


def fence(session: Session, name: str, wanted: Fence | None) -> Outcome:
    """Set how it is switched off (None: not at all), then autostart of its VMs as follows from it.

    The block stands at once: what is defined from then on has no autostart there.
    """
    record = mark(session, name, fence=wanted)
    vms = [vm for vm in session.ledger.vms() if _to_set(vm, record)]
    return operations.begin(session, _reservation(vms, record, session.opening()))


def _to_set(vm: VmRecord, host: HostRecord) -> bool:
    return vm.host == host.name and vm.state is VmState.ACTIVE and vm.spec.autostart


def _reservation(vms: list[VmRecord], host: HostRecord, opening: Opening) -> Reservation:
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
