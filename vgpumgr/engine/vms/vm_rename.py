"""`vm rename`: a VM that is off gets another name; all that is its own stays its own."""

from __future__ import annotations

import re

from vgpumgr.engine.inventory.ledger_view import LedgerView, observed_domains
from vgpumgr.engine.migration.user_messages import tell_now
from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import (
    refuse_resting,
    refuse_shelved,
    until_current,
)
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.reservation.rename_reservation import rename_reservation
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import Conflict, StillRunning, UsageError
from vgpumgr.model.formats import counted
from vgpumgr.model.operation import RENAME
from vgpumgr.model.vm import NAME, VmRecord


def rename(
    context: EngineContext, name: str, new_name: str, stop: StopManner | None = None
) -> Outcome:
    """Give the VM another name. StillRunning where it runs, unless it may be stopped so, and
    started again; Conflict where a VM of that name is there or waits, where another one waits for
    this one, and for a replica, whose name follows from its file.

    An interrupted renaming is finished.
    """
    if not re.fullmatch(NAME, new_name):
        raise UsageError(
            f"{new_name!r:.80} is no name of a VM",
            why="at most 63 lower-case letters, digits and hyphens, no leading hyphen",
        )
    spec = context.ledger.vm(name).spec
    before = operation_lifecycle.finish_leftovers(context, {name: spec}, {RENAME})
    if before.vms and any(vm.name == new_name for vm in context.ledger.vms()):
        return before

    def attempt() -> Outcome:
        vm = context.ledger.vm(name)
        _refuse(context, vm, new_name)
        operation_lifecycle.refuse_unfinished(context.ledger, [vm])
        refuse_shelved([vm])
        for error in context.refresh({vm.host}).failed.values():
            raise error
        view = context.view()
        how = stop if _runs(context, view, vm, new_name, may_stop=stop is not None) else None
        if how is not None:
            tell_now(context, [name])
        start = rename_reservation(vm, new_name, how, view, context.opening())
        return operation_lifecycle.begin(context, start)

    return before.then(until_current(attempt))


def _refuse(context: EngineContext, vm: VmRecord, new_name: str) -> None:
    if new_name == vm.name:
        raise Conflict(f"{vm.name} is called so already", next=f"vgpumgr vm show {vm.name}")
    if any(each.name == new_name for each in context.ledger.vms()):
        raise Conflict(f"VM {new_name} exists already", next=f"vgpumgr vm show {new_name}")
    if vm.definition:
        raise Conflict(
            f"{vm.name} cannot be renamed",
            why="it was adopted: its definition is not the fleet's to write",
            next="vgpumgr image import, then a VM of that name with that image",
        )
    if vm.spec.scale is not None:
        raise replica_named(vm.name, new_name)
    waiting = context.ledger.queue()
    if any(each.name == new_name for each in waiting):
        raise Conflict(f"a VM {new_name} waits in the queue", next=f"vgpumgr queue show {new_name}")
    after = [each.name for each in waiting if each.vm.queue and vm.name in each.vm.queue.after]
    if after:
        raise Conflict(
            f"{vm.name} cannot be renamed now",
            why=f"{counted(len(after), 'VM')} in the queue would wait for it by its name: "
            f"{', '.join(after[:5])}",
            next=f"vgpumgr queue show {after[0]}",
        )


def replica_named(name: str, new_name: str) -> Conflict:
    """The error for a VM whose name follows from its group's."""
    return Conflict(
        f"{name} cannot be renamed: it is a replica",
        why="its name is its group's with a number, and the group would make another in its place",
        next=f"vgpumgr vm clone {name} {new_name}, then a file of its own for that",
    )


def _runs(
    context: EngineContext, view: LedgerView, vm: VmRecord, new_name: str, *, may_stop: bool
) -> bool:
    """Does it run? StillRunning where it does and may not be stopped."""
    refuse_resting([(vm.name, vm.host)], observed_domains(view).resting)
    domains = context.host(vm.host).domains
    other = domains.look(new_name)
    if other is not None and (other.ownership is None or other.ownership.vm_id != vm.id):
        raise Conflict(
            f"there is a domain {new_name} on {vm.host} already",
            why="it is none of the fleet's VMs",
            next="another name, or vgpumgr adopt",
        )
    found = domains.look(vm.name)
    if found is None or found.state in OFF:
        return False
    if not may_stop:
        raise StillRunning(
            f"{vm.name} runs: libvirt renames no domain under its guest",
            next=f"vgpumgr vm stop {vm.name}, then the same command; or "
            f"vgpumgr vm rename {vm.name} {new_name} --restart",
        )
    return True
