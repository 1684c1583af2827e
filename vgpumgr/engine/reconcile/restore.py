"""What a boot took from a host, brought back: its GPUs' layouts, then the VMs that should run.

The host itself restores what it keeps claims of before anybody asks; this is for the rest. Devices
come back under the ids they had: they are in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpumgr.engine import layouts, supply
from vgpumgr.engine.amnesia import reinstalled
from vgpumgr.engine.reconcile.context import Turn, words
from vgpumgr.engine.reconcile.events import task_event
from vgpumgr.engine.reserving.returning import require_partitioned, require_whole
from vgpumgr.engine.running import leftovers, operations
from vgpumgr.engine.running.outcome import Outcome
from vgpumgr.engine.steps import OFF
from vgpumgr.engine.use_cases import power
from vgpumgr.engine.view import LedgerView, read_host_view
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.errors import Conflict, VgpumgrError
from vgpumgr.model.host import HostFacts
from vgpumgr.model.journal import FINAL_TASKS
from vgpumgr.model.layout import LayoutPlan
from vgpumgr.model.vm import VmRecord, VmState


def in_the_way(turn: Turn, facts: HostFacts) -> str:
    """Why what is gone must not be made again by itself."""
    ledger = turn.session.ledger
    frozen = ledger.frozen()
    if frozen is not None:
        return f"the ledger is frozen: {frozen.why}"
    held = ledger.allocations(turn.host)
    forgotten = reinstalled.lost(facts, held, ledger.fleet_id())
    return reinstalled.reason(forgotten) if forgotten else ""


def restore_layouts(turn: Turn) -> bool:
    """Partition the host's GPUs as their layouts declare; was anything begun?"""
    view = read_host_view(turn.session.ledger, turn.host)
    planned = layouts.plan(view, None)
    wanted = _possible(turn, planned)
    if not any(change.changes or change.keep for change in wanted.gpus):
        return False
    gpus = {change.gpu for change in wanted.gpus}
    leftovers.close_layouts(turn.session.ledger, gpus, turn.session.clock.now())
    only = _narrowed(view, gpus)
    start = layouts.reservation(wanted, only, None, turn.session.opening())
    _tell(turn, operations.begin(turn.session, start))
    return True


def _possible(turn: Turn, planned: LayoutPlan) -> LayoutPlan:
    refused = [change for change in planned.gpus if change.refused]
    for change in refused:
        text = f"{change.model} {change.device} cannot be partitioned again: {change.refused}"
        turn.wait_for(text, change.next)
    return LayoutPlan(gpus=tuple(each for each in planned.gpus if not each.refused), unchanged=0)


def _narrowed(view: LedgerView, gpus: set[str]) -> LedgerView:
    """The same view with no layouts but those of these GPUs."""
    kept = tuple(record for record in view.layouts if record.gpu in gpus)
    return LedgerView(view.fleet, view.hosts, view.gpus, view.vms, view.allocations, kept)


def restore_vms(turn: Turn) -> bool:
    """Start what its user wants to run and the boot has stopped; was anything begun?

    A VM that something keeps from starting does not keep the others.
    """
    view = turn.session.view()
    if any(supply.unread(host) for host in view.hosts if host.name == turn.host):
        return False
    names = [vm.name for vm in _stopped(turn, view) if _can_start(turn, view, vm)]
    if not names:
        return False
    _tell(turn, power.power(turn.session, names, "start"))
    return True


def _stopped(turn: Turn, view: LedgerView) -> Iterator[VmRecord]:
    """VMs of the host that should run, do not, and that no operation is about."""
    facts = next(host.facts for host in view.hosts if host.name == turn.host)
    running = {each.name for each in facts.domains if each.state not in OFF} if facts else set()
    busy = leftovers.worked_on(turn.session.ledger)
    for vm in view.vms:
        meant = vm.host == turn.host and vm.running and vm.state is VmState.ACTIVE
        if meant and vm.name not in running and vm.id not in busy:
            yield vm


def _can_start(turn: Turn, view: LedgerView, vm: VmRecord) -> bool:
    try:
        _refuse_elsewhere(view, vm)
        require_whole(view, [vm])
        require_partitioned(view, [vm.name])
    except Conflict as refused:
        turn.wait_for(words(refused), refused.next)
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


def _tell(turn: Turn, outcome: Outcome) -> None:
    for each in outcome.vms:
        turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
        if each.error is not None:
            turn.wait_for(_why(each.vm, each.error), each.error.next)


def _why(name: str, error: VgpumgrError) -> str:
    return f"{name}: {words(error)}"
