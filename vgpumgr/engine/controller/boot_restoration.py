"""A host after a boot: its layouts and VMs restored, new VMs kept off until all is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind, task_event
from vgpumgr.engine.controller.cycle_context import HostCycle, error_line
from vgpumgr.engine.hosts.host_marks import mark
from vgpumgr.engine.inventory import host_supply, rollback_detection
from vgpumgr.engine.inventory.ledger_view import LedgerView, read_host_view
from vgpumgr.engine.layouts import layout_plan
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.reservation.vm_reservations import require_partitioned, require_whole
from vgpumgr.engine.vms import vm_power
from vgpumgr.model.domain import OFF, DomainFacts, DomainState
from vgpumgr.model.drift import Drift, DriftKind, DriftReport
from vgpumgr.model.errors import Conflict, VgpumgrError
from vgpumgr.model.formats import spanned
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.layout import LayoutPlan
from vgpumgr.model.operation import FINAL_TASKS
from vgpumgr.model.vm import VmRecord, VmState

# So many VMs are named in a command to type.
_MOST = 5
# Differences that say that something a boot took is not back, or not known to be.
_LACKS = frozenset(
    {
        DriftKind.UNFINISHED,
        DriftKind.REINSTALLED,
        DriftKind.DOMAIN_MISSING,
        DriftKind.DEVICE_MISSING,
        DriftKind.DEVICE_DIFFERS,
        DriftKind.DEVICE_DRIVER,
        DriftKind.DEVICE_TAKEN,
        DriftKind.INSTANCE_MISSING,
        DriftKind.PARTITION_INACTIVE,
        DriftKind.CLAIM_MISSING,
        DriftKind.CLAIM_DIFFERS,
        DriftKind.LAYOUT,
        DriftKind.GPU_MISSING,
        DriftKind.GPU_LOST,
        DriftKind.GPU_EVIDENCE,
    }
)


def remember_boot(turn: HostCycle, before: HostRecord) -> HostRecord:
    """The boot it was last seen in, kept before a look writes another one over it."""
    if before.settled_boot or before.facts is None:
        return before
    return mark(turn.context, turn.host, settled_boot=before.facts.boot_id)


def has_rebooted(before: HostRecord, facts: HostFacts) -> bool:
    """Has it booted since it was last seen whole (by a controller that never looked: seen)?"""
    last = before.settled_boot or (before.facts.boot_id if before.facts else "")
    return bool(last) and last != facts.boot_id


def tell_reboot(turn: HostCycle, facts: HostFacts) -> None:
    """Once for each boot."""
    if turn.memory.rebooted != facts.boot_id:
        turn.memory.rebooted = facts.boot_id
        text = f"{turn.host} has rebooted; its lost state is being restored"
        turn.emit(ControllerEvent(kind=EventKind.HOST_REBOOTED, host=turn.host, text=text))


def tell_left_off(turn: HostCycle, report: DriftReport) -> None:
    """Leave the VMs of a host off, by name, that was not seen whole before its boot: a boot or a
    person may have stopped them.
    """
    off = [drift.vm for drift in report.drifts if _is_off(drift)]
    if off:
        turn.wait_for(
            f"left off on {turn.host}: {spanned(off)}: serve has not seen the complete "
            "host before, so it cannot tell a reboot from a manual shutdown",
            f"vgpumgr vm start {' '.join(off[:_MOST])}{' …' if len(off) > _MOST else ''}",
        )


def settle(turn: HostCycle, facts: HostFacts, report: DriftReport, *, rebooted: bool) -> bool:
    """Write down that the host is whole under this boot, where it is; is it?"""
    lacking = boot_losses(report)
    unread = [part for part in report.not_read if part.host == turn.host]
    if rebooted and (lacking or unread or report.skipped):
        if lacking and not turn.memory.waits:
            turn.wait_for(f"incomplete since its reboot: {lacking[0].text}", lacking[0].next)
        return False
    mark(turn.context, turn.host, settled_boot=facts.boot_id)
    if rebooted:
        text = f"{turn.host} is restored after its reboot, and accepts VMs again"
        turn.emit(ControllerEvent(kind=EventKind.HOST_RESTORED, host=turn.host, text=text))
    turn.memory.waits[:] = turn.reasons
    return True


def boot_losses(report: DriftReport) -> list[Drift]:
    """The differences that a boot may have made."""
    return [drift for drift in report.drifts if _lacks(drift)]


def _lacks(drift: Drift) -> bool:
    return _is_off(drift) or drift.kind in _LACKS


def _is_off(drift: Drift) -> bool:
    return drift.kind is DriftKind.POWER and drift.wanted == str(DomainState.RUNNING)


# The host itself restores what it keeps claims of before anybody asks; this is for the rest.
# Devices come back under the ids they had: they are in the ledger.


def restoration_obstacle(turn: HostCycle, facts: HostFacts) -> str:
    """Why what is gone must not be made again by itself."""
    ledger = turn.context.ledger
    frozen = ledger.frozen()
    if frozen is not None:
        return f"the ledger is frozen: {frozen.why}"
    held = ledger.allocations(turn.host)
    forgotten = rollback_detection.forgotten_allocations(facts, held, ledger.fleet_id())
    return rollback_detection.reason(forgotten) if forgotten else ""


def restore_layouts(turn: HostCycle) -> bool:
    """Partition the host's GPUs as their layouts declare; was anything begun?"""
    view = read_host_view(turn.context.ledger, turn.host)
    planned = layout_plan.plan(view, None)
    wanted = _possible(turn, planned)
    if not any(change.changes or change.keep for change in wanted.gpus):
        return False
    gpus = {change.gpu for change in wanted.gpus}
    operation_lifecycle.close_layouts(turn.context.ledger, gpus, turn.context.clock.now())
    only = _narrowed(view, gpus)
    start = layout_plan.reservation(wanted, only, None, turn.context.opening())
    _tell(turn, operation_lifecycle.begin(turn.context, start))
    return True


def _possible(turn: HostCycle, planned: LayoutPlan) -> LayoutPlan:
    refused = [change for change in planned.gpus if change.refused]
    for change in refused:
        text = f"{change.model} {change.device} cannot be partitioned again: {change.refused}"
        turn.wait_for(text, change.next)
    return LayoutPlan(gpus=tuple(each for each in planned.gpus if not each.refused), unchanged=0)


def _narrowed(view: LedgerView, gpus: set[str]) -> LedgerView:
    """The view with the layouts of these GPUs alone."""
    kept = tuple(record for record in view.layouts if record.gpu in gpus)
    return LedgerView(view.fleet, view.hosts, view.gpus, view.vms, view.allocations, kept)


def restore_vms(turn: HostCycle) -> bool:
    """Start what its user wants to run and the boot has stopped; was anything begun?

    A VM that something keeps from starting does not keep the others.
    """
    view = turn.context.view()
    if any(host_supply.unread(host) for host in view.hosts if host.name == turn.host):
        return False
    names = [vm.name for vm in _stopped(turn, view) if _can_start(turn, view, vm)]
    if not names:
        return False
    _tell(turn, vm_power.power(turn.context, names, "start"))
    return True


def _stopped(turn: HostCycle, view: LedgerView) -> Iterator[VmRecord]:
    """VMs of the host that should run, do not, and that no operation is about."""
    facts = next(host.facts for host in view.hosts if host.name == turn.host)
    running = {each.name for each in facts.domains if each.state not in OFF} if facts else set()
    busy = operation_lifecycle.worked_on(turn.context.ledger)
    for vm in view.vms:
        meant = vm.host == turn.host and vm.running and vm.state is VmState.ACTIVE
        if meant and vm.name not in running and vm.id not in busy:
            yield vm


def _can_start(turn: HostCycle, view: LedgerView, vm: VmRecord) -> bool:
    try:
        _refuse_elsewhere(view, vm)
        require_whole(view, [vm])
        require_partitioned(view, [vm.name])
    except Conflict as refused:
        turn.wait_for(error_line(refused), refused.next)
        return False
    return True


def _refuse_elsewhere(view: LedgerView, vm: VmRecord) -> None:
    """A VM never runs twice: whatever another host showed of it last counts."""
    for host in view.hosts:
        domains: Sequence[DomainFacts] = host.facts.domains if host.facts else ()
        if host.name != vm.host and any(_runs(each, vm) for each in domains):
            raise Conflict(
                f"{vm.name} is not started again",
                why=f"a domain of it was seen running on {host.name}",
                next=f"vgpumgr drift {host.name}",
            )


def _runs(domain: DomainFacts, vm: VmRecord) -> bool:
    mark = domain.ownership
    return mark is not None and mark.vm_id == vm.id and domain.state not in OFF


def _tell(turn: HostCycle, outcome: Outcome) -> None:
    for each in outcome.vms:
        turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
        if each.error is not None:
            turn.wait_for(_why(each.vm, each.error), each.error.next)


def _why(name: str, error: VgpumgrError) -> str:
    return f"{name}: {error_line(error)}"
