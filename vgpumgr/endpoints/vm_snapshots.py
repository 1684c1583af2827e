"""The endpoints of a VM's snapshots: list, create, revert, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.outcomes import OutcomeItem, outcome_result
from vgpumgr.endpoints.shapes import ItemList, Name, Time
from vgpumgr.endpoints.vm_items import VmVolume
from vgpumgr.endpoints.vms import OneVm
from vgpumgr.model.vm import NAME, VmRecord

if TYPE_CHECKING:
    from vgpumgr.engine.operations.operation_outcome import Outcome
    from vgpumgr.engine.use_cases import Engine

SnapshotName = Annotated[str, ParameterLimits(min_length=1, max_length=63, pattern=f"^{NAME}$")]


class SnapshotItem(TypedDict):
    """A snapshot of a VM's disks. ``moment`` is off, frozen or running; ``over`` the snapshot that
    it was taken after, empty for the first; ``current``: the VM's disks are laid over it.
    """

    name: str
    vm: str
    created_at: Time
    moment: str
    over: str
    current: bool
    volumes: list[VmVolume]


def snapshot_items(vm: VmRecord) -> list[SnapshotItem]:
    """The JSON of a VM's snapshots, the oldest first."""
    return [
        {
            "name": each.name,
            "vm": vm.name,
            "created_at": each.created_at,
            "moment": str(each.moment),
            "over": each.over,
            "current": each.name == vm.snapshots.current,
            "volumes": [{"pool": pool, "name": name} for pool, name in each.volumes],
        }
        for each in vm.snapshots
    ]


def list_snapshots(context: CallContext, asked: OneVm) -> Result[ItemList[SnapshotItem]]:
    """The snapshots of a VM."""
    return Result(answer={"items": snapshot_items(context.reads.vm(asked.name))})


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSnapshot:
    """A snapshot of a VM's disks. ``freeze``: a running guest's agent has its file systems whole at
    that moment. ``memory``: the guest's memory as well, which is refused.
    """

    name: Name
    snapshot: SnapshotName
    freeze: bool = False
    memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSnapshot:
    """A snapshot of a VM, by both names."""

    name: Name
    snapshot: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertVm(OneSnapshot):
    """A snapshot that a VM's disks are brought back to. ``restart``: a running VM is stopped for
    it, within ``timeout_s``, and started again; ``with_users``: even where users are at work.
    """

    restart: bool = False
    timeout_s: Annotated[float, ParameterLimits(ge=0, le=86400)] = 60.0
    with_users: bool = False


def create_snapshot(context: CallContext, asked: CreateSnapshot) -> Result[OutcomeItem]:
    """Keep what the disks hold now; Conflict where that cannot be, with the reason."""

    def take(engine: Engine) -> Outcome:
        return engine.take_snapshot(
            asked.name, asked.snapshot, freeze=asked.freeze, memory=asked.memory
        )

    return _done(context, asked.name, take)


def revert_vm(context: CallContext, asked: RevertVm) -> Result[OutcomeItem]:
    """Bring the disks back; what was written since the snapshot is lost."""
    from vgpumgr.engine.reservation.shelf_reservations import StopManner

    context.reads.vm(asked.name)
    stop = StopManner(timeout_s=asked.timeout_s) if asked.restart else None
    cuts_off = stop is not None and asked.with_users
    users = context.app.engine.users_on([asked.name]) if cuts_off else ()

    def revert(engine: Engine) -> Outcome:
        return engine.revert(asked.name, asked.snapshot, stop=stop, with_users=asked.with_users)

    return _done(context, asked.name, revert, users)


def delete_snapshot(context: CallContext, asked: OneSnapshot) -> Result[OutcomeItem]:
    """Delete it; the disks and the other snapshots stay as they are."""
    return _done(
        context, asked.name, lambda engine: engine.delete_snapshot(asked.name, asked.snapshot)
    )


def _done(
    context: CallContext, name: str, act: Callable[[Engine], Outcome], users: Sequence[Any] = ()
) -> Result[OutcomeItem]:
    context.reads.vm(name)
    with context.changing() as engine:
        outcome = act(engine)
    return outcome_result(outcome, users)


LIST_SNAPSHOTS = Endpoint(
    name="vm.snapshot.list",
    method=HttpMethod.GET,
    path="/vms/{name}/snapshots",
    permission=Permission.VM_READ,
    summary="The snapshots of a VM's disks.",
    asks=OneVm,
    answers=ItemList[SnapshotItem],
    kind="SnapshotList",
    work=list_snapshots,
    scoped=True,
)
CREATE_SNAPSHOT = Endpoint(
    name="vm.snapshot.create",
    method=HttpMethod.POST,
    path="/vms/{name}/snapshots",
    permission=Permission.VM_CREATE,
    summary="Keep what a VM's disks hold now.",
    asks=CreateSnapshot,
    answers=OutcomeItem,
    kind="Outcome",
    work=create_snapshot,
    runs=Runs.OPERATION,
    scoped=True,
)
REVERT_VM = Endpoint(
    name="vm.snapshot.revert",
    method=HttpMethod.POST,
    path="/vms/{name}/snapshots/{snapshot}:revert",
    permission=Permission.VM_DELETE,
    summary="Bring a VM's disks back to a snapshot; what was written since is lost.",
    asks=RevertVm,
    answers=OutcomeItem,
    kind="Outcome",
    work=revert_vm,
    runs=Runs.OPERATION,
    scoped=True,
)
DELETE_SNAPSHOT = Endpoint(
    name="vm.snapshot.delete",
    method=HttpMethod.POST,
    path="/vms/{name}/snapshots/{snapshot}:delete",
    permission=Permission.VM_DELETE,
    summary="Delete a snapshot; the VM's disks and its other snapshots stay as they are.",
    asks=OneSnapshot,
    answers=OutcomeItem,
    kind="Outcome",
    work=delete_snapshot,
    runs=Runs.OPERATION,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (
    LIST_SNAPSHOTS,
    CREATE_SNAPSHOT,
    REVERT_VM,
    DELETE_SNAPSHOT,
)
