"""The endpoints of VMs' backups: list, show, create, verify, restore, delete."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import checked
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.outcomes import OutcomeItem, failure_of, outcome_item, outcome_result
from vgpumgr.endpoints.own_documents import require_new_vm_name, require_own_plan
from vgpumgr.endpoints.plan_items import AppliedPlan, plan_item
from vgpumgr.endpoints.shapes import ItemList, Name, Time
from vgpumgr.model.errors import Conflict, UsageError, VgpumgrError
from vgpumgr.model.vm_backup import VmBackup

if TYPE_CHECKING:
    from vgpumgr.model.vm import VmSpec

BackupId = Annotated[str, ParameterLimits(min_length=1, max_length=64)]


class BackupItem(TypedDict):
    """A backup of a VM. ``state`` is making, there or leaving, ``moment`` off, frozen or running.
    ``fault`` is what its last verification found wrong, empty for nothing; ``verified_at`` is null
    where there was none. ``vm`` is what its VM is called now; ``deleted``: it is there no more, and
    ``vm`` is what it was called then. ``parent`` is the id of the backup that it is laid over,
    empty for a full one.
    """

    name: str
    id: str
    vm: str
    vm_id: str
    deleted: bool
    tenant: str
    target: str
    pool: str
    host: str
    created_at: Time
    moment: str
    state: str
    scheduled: bool
    parent: str
    verified_at: Time | None
    fault: str


def backup_item(backup: VmBackup, alive: Mapping[str, str]) -> BackupItem:
    """The JSON of a backup; ``alive`` are the names of VMs that there are, by their ids."""
    return {
        "name": backup.id[:8],
        "id": backup.id,
        "vm": alive.get(backup.vm_id, backup.vm),
        "vm_id": backup.vm_id,
        "deleted": backup.vm_id not in alive,
        "tenant": backup.tenant,
        "target": backup.target,
        "pool": backup.pool,
        "host": backup.host,
        "created_at": backup.created_at,
        "moment": str(backup.moment),
        "state": str(backup.state),
        "scheduled": backup.scheduled,
        "parent": backup.parent,
        "verified_at": backup.verified_at or None,
        "fault": backup.fault,
    }


def _alive(context: CallContext) -> dict[str, str]:
    return {vm.id: vm.name for vm in context.reads.vms()}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFilter:
    """Backups of one VM, by its name, and on one target; empty: of all, on all."""

    vm: Annotated[str, ParameterLimits(max_length=63)] = ""
    target: Annotated[str, ParameterLimits(max_length=63)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBackup:
    """A backup by its id, or the beginning of that."""

    backup: BackupId


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBackup:
    """A VM to back up, and to which target (empty: the only one). ``freeze``: a running guest's
    agent has its file systems whole at that moment; null: as the target says.
    """

    name: Name
    target: Annotated[str, ParameterLimits(max_length=63)] = ""
    freeze: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBackup(OneBackup):
    """A backup to make a VM of: called ``name`` (empty: as it was), with other GPU parts where
    ``profiles`` are given, or with none (``no_gpus``), and its disks in the storage ``pool``
    (empty: where they were).
    """

    name: Annotated[str, ParameterLimits(max_length=63)] = ""
    profiles: tuple[Name, ...] = ()
    no_gpus: bool = False
    pool: Annotated[str, ParameterLimits(max_length=255)] = ""


class BackupMade(OutcomeItem):
    """The end of a backup, and its id."""

    backup: str


class VerifiedItem(TypedDict):
    """A verification: on which ``host`` and how many ``disks`` were read; ``fault`` is empty where
    all bytes are as they were written.
    """

    name: str
    id: str
    vm: str
    host: str
    disks: int
    fault: str


def _find(context: CallContext, prefix: str) -> VmBackup:
    from vgpumgr.engine.backups.backup_places import find_backup

    return find_backup(context.reads.vm_backups(), prefix)


def list_backups(context: CallContext, asked: BackupFilter) -> Result[ItemList[BackupItem]]:
    """The backups of the caller's VMs, the oldest first."""
    alive = _alive(context)
    items = [backup_item(each, alive) for each in context.reads.vm_backups()]
    found = [
        each
        for each in items
        if asked.vm in {"", each["vm"]} and asked.target in {"", each["target"]}
    ]
    return Result(answer={"items": found})


def show_backup(context: CallContext, asked: OneBackup) -> Result[BackupItem]:
    """One backup; NotFound."""
    return Result(answer=backup_item(_find(context, asked.backup), _alive(context)))


def create_backup(context: CallContext, asked: CreateBackup) -> Result[BackupMade]:
    """Copy what its disks hold at one moment; Conflict where that cannot be, with the reason."""
    context.reads.vm(asked.name)
    with context.changing() as engine:
        outcome, made = engine.back_up(asked.name, asked.target, freeze=asked.freeze)
    answer: Any = {**outcome_item(outcome), "backup": made.id}
    return Result(answer=answer, error=failure_of(outcome))


def verify_backup(context: CallContext, asked: OneBackup) -> Result[VerifiedItem]:
    """Compare its bytes with its manifest; the error says what is wrong."""
    backup = _find(context, asked.backup)
    with context.changing() as engine:
        found = engine.verify_backup(backup)
    error = None
    if found.fault:
        error = Conflict(
            f"backup {backup.id[:8]} of {backup.vm} is damaged",
            why=found.fault,
            next=f"vgpumgr backup create {backup.vm}; vgpumgr backup list {backup.vm}",
        )
    item: VerifiedItem = {
        "name": backup.id[:8],
        "id": backup.id,
        "vm": backup.vm,
        "host": found.host,
        "disks": found.disks,
        "fault": found.fault,
    }
    return Result(answer=item, error=error)


def restore_backup(context: CallContext, asked: RestoreBackup) -> Result[AppliedPlan]:
    """Make a VM of it; Conflict where there is one of the name."""
    from vgpumgr.engine.backups.backup_restore import RestoreRequest

    if asked.profiles and asked.no_gpus:
        raise UsageError(
            "GPU parts and none of them, both are asked for", next="--gpu PROFILE, or --no-gpus"
        )
    backup = _find(context, asked.backup)
    require_new_vm_name(context, asked.name or backup.vm)
    ledger = context.app.ledger

    def read(document: Mapping[str, Any]) -> Sequence[VmSpec]:
        text = json.dumps(document, ensure_ascii=False).encode(errors="surrogatepass")
        return checked(ledger, text, f"backup {backup.id[:8]}").vms

    profiles = asked.profiles if asked.profiles or asked.no_gpus else None
    request = RestoreRequest(name=asked.name, profiles=profiles, pool=asked.pool)
    with context.changing() as engine, _without_file(backup):
        spec = engine.restored_spec(backup, request, read)
        done, outcome = engine.apply([spec], show=lambda plan: require_own_plan(context, plan))
    answer: Any = {**plan_item(done), **outcome_item(outcome), "name": "plan"}
    return Result(answer=answer, error=failure_of(outcome))


@contextmanager
def _without_file(backup: VmBackup) -> Iterator[None]:
    """What to type next names no file: a restored VM has none."""
    try:
        yield
    except VgpumgrError as error:
        if "-f FILE" in error.next:
            again = f"vgpumgr backup restore {backup.id[:8]}"
            error.next = f"{again} --gpu PROFILE (vgpumgr capacity), or {again} --no-gpus"
        raise


def delete_backup(context: CallContext, asked: OneBackup) -> Result[OutcomeItem]:
    """Delete it from its target; InUse while a VM is restored from it."""
    backup = _find(context, asked.backup)
    with context.changing() as engine:
        outcome = engine.delete_backup(backup)
    return outcome_result(outcome)


LIST_BACKUPS = Endpoint(
    name="backup.list",
    method=HttpMethod.GET,
    path="/backups",
    permission=Permission.VM_READ,
    summary="Backups of VMs, deleted VMs included.",
    asks=BackupFilter,
    answers=ItemList[BackupItem],
    kind="BackupList",
    work=list_backups,
    scoped=True,
)
SHOW_BACKUP = Endpoint(
    name="backup.show",
    method=HttpMethod.GET,
    path="/backups/{backup}",
    permission=Permission.VM_READ,
    summary="One backup.",
    asks=OneBackup,
    answers=BackupItem,
    kind="Backup",
    work=show_backup,
    scoped=True,
)
CREATE_BACKUP = Endpoint(
    name="backup.create",
    method=HttpMethod.POST,
    path="/vms/{name}:back-up",
    permission=Permission.VM_CREATE,
    summary="Back up a VM: all its disks as they are at one moment.",
    asks=CreateBackup,
    answers=BackupMade,
    kind="BackupMade",
    work=create_backup,
    runs=Runs.OPERATION,
    scoped=True,
)
VERIFY_BACKUP = Endpoint(
    name="backup.verify",
    method=HttpMethod.POST,
    path="/backups/{backup}:verify",
    permission=Permission.VM_CREATE,
    summary="Compare a backup's bytes with its manifest.",
    asks=OneBackup,
    answers=VerifiedItem,
    kind="VerifiedBackup",
    work=verify_backup,
    runs=Runs.WORKER,
    scoped=True,
)
RESTORE_BACKUP = Endpoint(
    name="backup.restore",
    method=HttpMethod.POST,
    path="/backups/{backup}:restore",
    permission=Permission.VM_CREATE,
    summary="Make a VM of a backup.",
    asks=RestoreBackup,
    answers=AppliedPlan,
    kind="Apply",
    work=restore_backup,
    runs=Runs.OPERATION,
    scoped=True,
)
DELETE_BACKUP = Endpoint(
    name="backup.delete",
    method=HttpMethod.POST,
    path="/backups/{backup}:delete",
    permission=Permission.VM_DELETE,
    summary="Delete a backup from its target.",
    asks=OneBackup,
    answers=OutcomeItem,
    kind="Outcome",
    work=delete_backup,
    runs=Runs.OPERATION,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (
    LIST_BACKUPS,
    SHOW_BACKUP,
    CREATE_BACKUP,
    VERIFY_BACKUP,
    RESTORE_BACKUP,
    DELETE_BACKUP,
)
