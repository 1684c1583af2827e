"""Transitions: what ``Ledger.record`` makes durable, all of one call in one commit."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.image import CopyState
from vgpumgr.model.journal.records import OperationState, StepState, TaskState
from vgpumgr.model.refusal import Refusal
from vgpumgr.model.vm import AllocationState, VmState


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

    Moving allocations to ``released`` gives back their units in the same commit. ``layout_gpu``
    names the GPU whose layout is settled by it. ``arrived`` ends a migration: the VM lies where it
    was going (False: where it was), what it holds there is active, what it holds on the other
    host released. ``enrolled`` ends a host's coming or going: it is in the fleet, or not.
    ``copy`` is what a copy of an image has become. ``disk`` is what the VM's first one is
    from now on.
    """

    task: str
    state: TaskState
    error: str = ""
    vm_id: str = ""
    vm_state: VmState | None = None
    vm_running: bool | None = None
    allocations: AllocationState | None = None
    layout_gpu: str = ""
    arrived: bool | None = None
    enrolled: bool | None = None
    copy: CopyState | None = None
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
class Refused:
    """A step of a task was refused. ``sets_aside`` is why the GPU is quarantined for it, or the
    host cordoned; empty where it is not.
    """

    task: str
    refusal: Refusal
    sets_aside: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """These GPUs (our ids), and the host where it is named, did what a task asked: what they
    refused before counts no more.
    """

    task: str
    host: str = ""
    gpus: frozenset[str] = frozenset()


Transition = StepMoved | TaskMoved | OperationMoved | Refused | Served
