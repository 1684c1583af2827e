"""Operations with tasks and steps: records, states, transitions, and reservations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.model.allocation import Allocation, AllocationState
    from vgpumgr.model.desktop import DesktopRecord
    from vgpumgr.model.domain import VolumePlan
    from vgpumgr.model.host import HostRecord
    from vgpumgr.model.image import CopyState, ImageCopy, ImageRecord
    from vgpumgr.model.layout import LayoutRecord
    from vgpumgr.model.queue import QueueEntry, QueueMoved
    from vgpumgr.model.refusal import Refusal
    from vgpumgr.model.vm import VmRecord, VmState
    from vgpumgr.model.vm_backup import BackupState, VmBackup

# The verb of a task that is about a GPU: its ``vm_id`` is the GPU's id, its ``vm`` names it.
LAYOUT = "layout"
# The verb of a task whose steps are on two hosts.
MIGRATE = "migrate"
# The verb of a task that brings a domain of another hand under management.
ADOPT = "adopt"
# The verbs of ``heal``: a VM brought back to its record, and what a VM that is gone left behind.
HEAL, CLEAN = "heal", "clean"
# The verb of a task that gives back units which nothing on a host stands for any more.
RELEASE = "release"
# A VM that gives back what it holds, and is kept on its host; and one that comes back.
SHELVE, UNSHELVE = "shelve", "unshelve"
# A VM that gets other GPUs of its host.
RESEAT = "reseat"
# A VM that gets its first disk anew over another image, and keeps all else.
REIMAGE = "reimage"
# A VM that waits for its wave of a rolling change; done once that wave has begun.
ROLL = "roll"
# A snapshot of a VM's disks taken, the disks brought back to one, and one deleted.
SNAPSHOT, REVERT, UNSNAPSHOT = "snapshot", "revert", "delete-snapshot"
OF_SNAPSHOTS = frozenset({SNAPSHOT, REVERT, UNSNAPSHOT})
# A VM that gets another name.
RENAME = "rename"
# A VM that is backed up, and a backup deleted; the ``vm_id`` of the latter's task is its own id.
BACK_UP, DROP_BACKUP = "back-up", "delete-backup"
OF_BACKUPS = frozenset({BACK_UP, DROP_BACKUP})
# A VM recreated on ``host`` because its old one, ``peer``, was lost and is proven off.
EVACUATE = "evacuate"
# What an evacuated VM left on its old host, taken away there.
LEAVE = "leave"
# The verbs of tasks that are about a host: it comes into the fleet, or goes. No VM is theirs.
ENROL, REMOVE = "enrol", "remove"
OF_HOSTS = frozenset({ENROL, REMOVE})
# The verbs of tasks that are about a copy of an image: their ``vm_id`` is the copy's id.
IMPORT, DISCARD = "import", "discard"
OF_IMAGES = frozenset({IMPORT, DISCARD})


def worked_on(verb: str, host: str, peer: str) -> tuple[str, ...]:
    """The hosts that a task of this verb works on: never one that was lost."""
    return (host, peer) if peer and verb != EVACUATE else (host,)


class OperationState(StrEnum):
    """done, undone and failed are final; interrupted waits for resume or undo."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    DONE = "done"
    UNDONE = "undone"
    PARTLY = "partly"
    FAILED = "failed"


class TaskState(StrEnum):
    """One VM's part of an operation; ``failed`` needs an operator."""

    PENDING = "pending"
    RUNNING = "running"
    UNDOING = "undoing"
    DONE = "done"
    UNDONE = "undone"
    FAILED = "failed"


FINAL_TASKS = frozenset({TaskState.DONE, TaskState.UNDONE, TaskState.FAILED})


class StepState(StrEnum):
    """planned → intent → done; undo: undo-intent → undone."""

    PLANNED = "planned"
    INTENT = "intent"
    DONE = "done"
    UNDO_INTENT = "undo-intent"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One journalled step: ``kind`` names its class, ``args`` rebuild it.

    ``host`` is where it acts; empty means the task's own host.
    """

    seq: int
    kind: str
    args: Mapping[str, object]
    state: StepState = StepState.PLANNED
    detail: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """One VM's steps on one host, in order; a migration's are on ``host`` and its ``peer``. An
    evacuation's ``peer`` is the host that was lost.

    The outcome maps are applied to the ledger in the same commit that ends the task.
    """

    id: str
    operation: str
    vm_id: str
    vm: str
    host: str
    verb: str
    steps: tuple[StepRecord, ...]
    state: TaskState = TaskState.PENDING
    error: str = ""
    peer: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host it works on."""
        return worked_on(self.verb, self.host, self.peer)


@dataclass(frozen=True, slots=True)
class OperationSubjects:
    """What an operation works on: the first few VMs or hosts by name, and how many there are."""

    names: tuple[str, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """One operation. ``epoch`` is the store's at its start. Times are Unix seconds.

    ``worker`` names the process that works on it, or did when it died (``MACHINE:PID:…``).
    ``left_until``: a person interrupted it, and nobody goes on with it unasked before that time.
    ``by``, ``tenant`` and ``method`` are those of the :class:`Actor` who asked for it.
    """

    id: str
    kind: str
    state: OperationState
    epoch: int
    started_at: float
    ended_at: float | None = None
    by: str = ""
    summary: str = ""
    worker: str = ""
    left_until: float | None = None
    tenant: str = ""
    method: str = ""


@dataclass(frozen=True, slots=True)
class InState:
    """The host is in the wanted state."""


@dataclass(frozen=True, slots=True)
class Differs:
    """The host is not in the wanted state; ``what`` says how."""

    what: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Could not be read; ``why`` says the cause."""

    why: str


Observed = InState | Differs | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMoved:
    """A step changed state."""

    task: str
    seq: int
    state: StepState
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMoved:
    """A task changed state; with it the VM and its allocations where the fields are set.

    Moving allocations to ``released`` gives back their units in the same commit. ``layout_gpus``
    are the GPUs whose layouts are settled by it, or where it is undone forgotten, unless others
    hold something there: then these GPUs have those of ``layouts_before`` again. ``arrived`` ends
    a migration: the VM lies where it was going (False: where it was), what it holds there is
    active, what it holds on the other host released. ``enrolled`` ends a host's coming or going:
    it is in the fleet, or not.
    ``copy`` is what a copy of an image has become, ``backup`` what a VM's backup has. ``disk`` is
    what the VM's first one is from now on.
    """

    task: str
    state: TaskState
    error: str = ""
    vm_id: str = ""
    vm_state: VmState | None = None
    vm_running: bool | None = None
    allocations: AllocationState | None = None
    layout_gpus: tuple[str, ...] = ()
    layouts_before: tuple[LayoutRecord, ...] = ()
    arrived: bool | None = None
    enrolled: bool | None = None
    copy: CopyState | None = None
    backup: BackupState | None = None
    disk: VolumePlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationMoved:
    """An operation changed state; final states get ``ended_at``, and one that a person interrupted
    ``left_until``: both Unix seconds.
    """

    operation: str
    state: OperationState
    summary: str = ""
    ended_at: float | None = None
    left_until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRefused:
    """A step of a task was refused. ``sets_aside`` is why the GPU is quarantined for it, or the
    host cordoned; empty where it is not.
    """

    task: str
    refusal: Refusal
    sets_aside: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceServed:
    """These GPUs (our ids), and the host where it is named, did what a task asked: what they
    refused before counts no more.
    """

    task: str
    host: str = ""
    gpus: frozenset[str] = frozenset()


Transition = StepMoved | TaskMoved | OperationMoved | PlaceRefused | PlaceServed


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What one transaction writes at the start of an operation.

    New VMs with their allocations (units under UNIQUE constraints), VMs whose record changes,
    the operation and all tasks with all steps. ``gpu_generations`` and ``host_generations`` are
    compared and raised; a mismatch or a taken unit raises StaleGeneration and writes nothing.
    ``layouts`` replace the records of their GPUs. ``joining`` are hosts that are new (Conflict
    where name or address is taken), ``leaving`` names of hosts that go (Conflict while in use).
    ``queued`` are new in the queue, ``queue`` moves what is there (StaleGeneration where another
    did). ``images`` are new (StaleGeneration where name and version are taken), ``copies`` of
    images come (where there is none) or leave, ``backups`` of VMs are made or deleted.
    ``continued``: the operation has begun already, and its tasks get company (StaleGeneration
    where it has ended). ``moved``: tasks of it that change
    their state with that. ``sharing`` are VMs (ids) whose new allocations may have units that they
    hold already, which pass to these when the VM has its new seat.
    """

    operation: OperationRecord
    tasks: tuple[TaskRecord, ...] = ()
    vms: tuple[VmRecord, ...] = ()
    changed_vms: tuple[VmRecord, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    layouts: tuple[LayoutRecord, ...] = ()
    gpu_generations: Mapping[str, int] = field(default_factory=dict)
    host_generations: Mapping[str, int] = field(default_factory=dict)
    joining: tuple[HostRecord, ...] = ()
    leaving: tuple[str, ...] = ()
    queued: tuple[QueueEntry, ...] = ()
    queue: tuple[QueueMoved, ...] = ()
    desktops: tuple[DesktopRecord, ...] = ()
    images: tuple[ImageRecord, ...] = ()
    copies: tuple[ImageCopy, ...] = ()
    backups: tuple[VmBackup, ...] = ()
    continued: bool = False
    moved: tuple[Transition, ...] = ()
    sharing: frozenset[str] = frozenset()
