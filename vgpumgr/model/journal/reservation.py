"""The start of an operation: what it takes, and what it will do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpumgr.model.host import HostRecord
from vgpumgr.model.image import ImageCopy, ImageRecord
from vgpumgr.model.journal.records import OperationRecord, TaskRecord
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.pool import DesktopRecord
from vgpumgr.model.queued import QueueEntry, QueueMoved
from vgpumgr.model.vm import Allocation, VmRecord


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
    images come (where there is none) or leave. ``continued``: the operation has begun already, and
    its tasks get company (StaleGeneration where it has ended).
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
    continued: bool = False
