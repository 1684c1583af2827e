"""Records of an operation: opened with its tasks, and ended task by task as each verb says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.engine.steps.layout_steps import PartitionGpu
from vgpumgr.engine.steps.step import Step, TwoHostStep, from_record, to_records
from vgpumgr.engine.steps.volume_steps import CreateVolume
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.image import CopyState, ImageCopy
from vgpumgr.model.operation import (
    ADOPT,
    BACK_UP,
    CLEAN,
    DISCARD,
    DROP_BACKUP,
    ENROL,
    EVACUATE,
    HEAL,
    IMPORT,
    LAYOUT,
    LEAVE,
    MIGRATE,
    OF_SNAPSHOTS,
    REIMAGE,
    RELEASE,
    REMOVE,
    RENAME,
    RESEAT,
    REVERT,
    ROLL,
    SHELVE,
    SNAPSHOT,
    UNSHELVE,
    UNSNAPSHOT,
    OperationRecord,
    OperationState,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.vm import VmRecord, VmState
from vgpumgr.model.vm_backup import BackupState


@dataclass(frozen=True, slots=True)
class OperationOpening:
    """The controller's epoch, where ids come from, and the time (Unix seconds). ``within`` is the
    operation that gets more tasks, where it is no new one.
    """

    epoch: int
    new_uuid: Callable[[], str]
    now: float
    within: OperationRecord | None = None

    def operation(self, kind: str) -> OperationRecord:
        """A new operation, running, or the one that gets more tasks."""
        return self.within or OperationRecord(
            id=self.new_uuid(),
            kind=kind,
            state=OperationState.RUNNING,
            epoch=self.epoch,
            started_at=self.now,
        )

    def task(
        self,
        operation: OperationRecord,
        verb: str,
        work: Sequence[Step],
        *,
        vm_id: str,
        vm: str,
        host: str,
    ) -> TaskRecord:
        """A task of it; a layout's has the GPU's id and name in the place of a VM's."""
        return TaskRecord(
            id=self.new_uuid(),
            operation=operation.id,
            vm_id=vm_id,
            vm=vm,
            host=host,
            verb=verb,
            steps=to_records(work),
        )

    def host_task(
        self, operation: OperationRecord, verb: str, work: Sequence[Step], host: str
    ) -> TaskRecord:
        """A task of it that is about a host itself, and no VM."""
        return self.task(operation, verb, work, vm_id="", vm=f"host {host}", host=host)

    def copy_task(
        self, operation: OperationRecord, verb: str, step: Step, copy: ImageCopy, reference: str
    ) -> TaskRecord:
        """A task of it that is about a copy of an image; ``reference`` is ``cad@12``."""
        named = f"image {reference}"
        return self.task(operation, verb, [step], vm_id=copy.id, vm=named, host=copy.host)

    def migration(
        self,
        operation: OperationRecord,
        work: Sequence[tuple[str, Step | TwoHostStep]],
        vm: VmRecord,
        peer: str,
    ) -> TaskRecord:
        """A task of it on two hosts: each step with the host where it acts."""
        return TaskRecord(
            id=self.new_uuid(),
            operation=operation.id,
            vm_id=vm.id,
            vm=vm.name,
            host=vm.host,
            peer=peer,
            verb=MIGRATE,
            steps=to_records(
                (step for _, step in work), {seq: host for seq, (host, _) in enumerate(work)}
            ),
        )


class OnRefusal(StrEnum):
    """The consequence of a refusal by the host: undo, wait to be resumed, or end as failed."""

    UNDO = "undo"
    WAIT = "wait"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class OperationVerb:
    """One kind of task; ``enrolled`` is whether its host is in the fleet when it is done,
    ``copies`` what the copy of an image is then, and what it is when that was undone, ``backups``
    the same of a VM's backup.
    """

    on_refusal: OnRefusal
    vm_state: VmState | None = None
    running: bool | None = None
    allocations: AllocationState | None = None
    enrolled: bool | None = None
    copies: tuple[CopyState, CopyState] | None = None
    backups: tuple[BackupState, BackupState] | None = None


VERBS = {
    "create": OperationVerb(
        OnRefusal.UNDO,
        vm_state=VmState.ACTIVE,
        running=True,
        allocations=AllocationState.ACTIVE,
    ),
    "delete": OperationVerb(
        OnRefusal.WAIT,
        vm_state=VmState.DELETED,
        running=False,
        allocations=AllocationState.RELEASED,
    ),
    "change": OperationVerb(OnRefusal.WAIT),
    "start": OperationVerb(OnRefusal.FAIL, running=True),
    "stop": OperationVerb(OnRefusal.FAIL, running=False),
    ADOPT: OperationVerb(
        OnRefusal.UNDO, vm_state=VmState.ACTIVE, allocations=AllocationState.ACTIVE
    ),
    HEAL: OperationVerb(OnRefusal.FAIL, allocations=AllocationState.ACTIVE),
    CLEAN: OperationVerb(OnRefusal.FAIL),
    RELEASE: OperationVerb(OnRefusal.FAIL, allocations=AllocationState.RELEASED),
    SHELVE: OperationVerb(
        OnRefusal.WAIT,
        vm_state=VmState.SHELVED,
        running=False,
        allocations=AllocationState.RELEASED,
    ),
    UNSHELVE: OperationVerb(
        OnRefusal.UNDO,
        vm_state=VmState.ACTIVE,
        running=True,
        allocations=AllocationState.ACTIVE,
    ),
    "reboot": OperationVerb(OnRefusal.FAIL),
    REIMAGE: OperationVerb(OnRefusal.UNDO, vm_state=VmState.ACTIVE),
    MIGRATE: OperationVerb(OnRefusal.UNDO, vm_state=VmState.ACTIVE),
    RESEAT: OperationVerb(OnRefusal.UNDO, vm_state=VmState.ACTIVE),
    ROLL: OperationVerb(OnRefusal.UNDO),
    SNAPSHOT: OperationVerb(OnRefusal.UNDO, vm_state=VmState.ACTIVE),
    REVERT: OperationVerb(OnRefusal.UNDO, vm_state=VmState.ACTIVE),
    UNSNAPSHOT: OperationVerb(OnRefusal.UNDO, vm_state=VmState.ACTIVE),
    RENAME: OperationVerb(OnRefusal.UNDO, vm_state=VmState.ACTIVE),
    EVACUATE: OperationVerb(OnRefusal.UNDO, vm_state=VmState.ACTIVE),
    # Planned anew from whatever state they left: there is nothing to take back.
    LEAVE: OperationVerb(OnRefusal.FAIL),
    LAYOUT: OperationVerb(OnRefusal.FAIL),
    ENROL: OperationVerb(OnRefusal.UNDO, enrolled=True),
    REMOVE: OperationVerb(OnRefusal.UNDO, enrolled=False),
    IMPORT: OperationVerb(OnRefusal.UNDO, copies=(CopyState.THERE, CopyState.GONE)),
    DISCARD: OperationVerb(OnRefusal.UNDO, copies=(CopyState.GONE, CopyState.THERE)),
    BACK_UP: OperationVerb(OnRefusal.UNDO, backups=(BackupState.THERE, BackupState.GONE)),
    DROP_BACKUP: OperationVerb(OnRefusal.UNDO, backups=(BackupState.GONE, BackupState.THERE)),
}
_DELETE_VOLUMES = frozenset({REVERT, UNSNAPSHOT})
# They end with the VM as it was to be, or as it was: elsewhere, with other disks or another name.
_GO_ELSEWHERE = frozenset({MIGRATE, EVACUATE, RESEAT, RENAME, *OF_SNAPSHOTS})


def finished(task: TaskRecord) -> TaskMoved:
    """The transition that ends a task well."""
    verb = VERBS[task.verb]
    if task.verb == LAYOUT:
        return TaskMoved(task=task.id, state=TaskState.DONE, layout_gpus=(task.vm_id,))
    if verb.enrolled is not None:
        return TaskMoved(task=task.id, state=TaskState.DONE, enrolled=verb.enrolled)
    if verb.copies is not None:
        return TaskMoved(task=task.id, state=TaskState.DONE, copy=verb.copies[0])
    if verb.backups is not None:
        return TaskMoved(task=task.id, state=TaskState.DONE, backup=verb.backups[0])
    return TaskMoved(
        task=task.id,
        state=TaskState.DONE,
        vm_id=task.vm_id,
        vm_state=verb.vm_state,
        vm_running=verb.running,
        allocations=verb.allocations,
        layout_gpus=tuple(each.keep.gpu for each in _partitionings(task)),
        arrived=True if task.verb in _GO_ELSEWHERE else None,
        disk=_first_disk(task) if task.verb == REIMAGE else None,
    )


def undone(task: TaskRecord, error: str) -> TaskMoved:
    """The transition at the end of an undone task: a creation's units are free again; a shelved VM,
    a VM that was to move or to get another disk, and a host are as before.
    """
    state, verb = TaskState.UNDONE, VERBS[task.verb]
    if verb.enrolled is not None:
        return TaskMoved(task=task.id, state=state, error=error, enrolled=not verb.enrolled)
    if verb.copies is not None:
        return TaskMoved(task=task.id, state=state, error=error, copy=verb.copies[1])
    if verb.backups is not None:
        return TaskMoved(task=task.id, state=state, error=error, backup=verb.backups[1])
    if task.verb in _GO_ELSEWHERE:
        return TaskMoved(
            task=task.id,
            state=state,
            error=error,
            vm_id=task.vm_id,
            vm_state=VmState.ACTIVE,
            arrived=False,
            layout_gpus=tuple(each.keep.gpu for each in _partitionings(task)),
            layouts_before=tuple(each.was for each in _partitionings(task) if each.was is not None),
        )
    if task.verb == ROLL:
        return TaskMoved(task=task.id, state=state, error=error)
    if task.verb == REIMAGE:
        active = VmState.ACTIVE
        return TaskMoved(task=task.id, state=state, error=error, vm_id=task.vm_id, vm_state=active)
    return TaskMoved(
        task=task.id,
        state=state,
        error=error,
        vm_id=task.vm_id,
        vm_state=VmState.SHELVED if task.verb == UNSHELVE else VmState.DELETED,
        vm_running=False,
        allocations=AllocationState.RELEASED,
        layout_gpus=tuple(each.keep.gpu for each in _partitionings(task)),
        layouts_before=tuple(each.was for each in _partitionings(task) if each.was is not None),
    )


def _partitionings(task: TaskRecord) -> list[PartitionGpu]:
    """The GPUs that were to be partitioned for its VM."""
    made = (from_record(each) for each in task.steps if each.kind == PartitionGpu.__name__)
    return [each for each in made if isinstance(each, PartitionGpu)]


def no_way_back(task: TaskRecord) -> str:
    """Why a task that is settled only goes forward."""
    if VERBS[task.verb].enrolled is not None or task.verb == DISCARD:
        return "nothing of this fleet is on it"
    if task.verb == REIMAGE:
        return "the disk that it had is deleted"
    if task.verb == DROP_BACKUP:
        return "its manifest is deleted, and without that it is no backup"
    if task.verb in _DELETE_VOLUMES:
        return "volumes that it no longer needs are being deleted"
    if task.verb in {RESEAT, RENAME, SNAPSHOT}:
        return f"{task.vm} is as it was to be already"
    return f"it is on {task.hosts[-1]} already"


def _first_disk(task: TaskRecord) -> VolumePlan:
    """The volume that it made."""
    made = map(from_record, task.steps)
    return next(each.plan for each in made if isinstance(each, CreateVolume))
