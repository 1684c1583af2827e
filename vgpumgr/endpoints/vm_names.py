"""The endpoint that renames a VM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.outcomes import OutcomeItem, outcome_result
from vgpumgr.endpoints.own_documents import require_vm_names
from vgpumgr.endpoints.replica_surplus import group_of
from vgpumgr.endpoints.shapes import Name


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameVm:
    """A VM and its new name. ``restart``: a running VM is stopped for it, within ``timeout_s``, and
    started again; ``with_users``: even where users are at work.
    """

    name: Name
    new_name: Name
    restart: bool = False
    timeout_s: Annotated[float, ParameterLimits(ge=0, le=86400)] = 60.0
    with_users: bool = False


def rename_vm(context: CallContext, asked: RenameVm) -> Result[OutcomeItem]:
    """Rename it; its disks, snapshots, backups, GPU parts and UUID stay its own."""
    from vgpumgr.engine.reservation.shelf_reservations import StopManner
    from vgpumgr.engine.vms.vm_rename import replica_named

    vm = context.reads.vm(asked.name)
    require_vm_names(context, [asked.new_name])
    if group_of(context.reads, vm):
        raise replica_named(vm.name, asked.new_name)
    stop = StopManner(timeout_s=asked.timeout_s) if asked.restart else None
    cuts_off = stop is not None and asked.with_users
    users = context.app.engine.users_on([asked.name]) if cuts_off else ()
    with context.changing() as engine:
        outcome = engine.rename(asked.name, asked.new_name, stop=stop, with_users=asked.with_users)
    note = f"a file that says name: {vm.name} would create another VM: write name: {asked.new_name}"
    return replace(outcome_result(outcome, users), notes=(note,))


RENAME_VM = Endpoint(
    name="vm.rename",
    method=HttpMethod.POST,
    path="/vms/{name}:rename",
    permission=Permission.VM_CREATE,
    summary="Give a VM another name; it is off, or stopped and started for it.",
    asks=RenameVm,
    answers=OutcomeItem,
    kind="Outcome",
    work=rename_vm,
    runs=Runs.OPERATION,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (RENAME_VM,)
