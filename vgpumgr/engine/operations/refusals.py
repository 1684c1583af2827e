"""Refusals: errors of a step that count against a GPU or host, and call for another place.

An error for which the request alone is at fault is no refusal: a name that is taken, a bad image.
An error that may be the request's fault or only the host's lack of capacity is tried elsewhere, and
counts against no place. A GPU that does not make a part counts at once: the part is the same for
every VM. A host that does not start a VM counts once another host has started it: the VM may be at
fault. A VF of a NIC that the host itself has begun to use is tried elsewhere, and counts against
no place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.operations.waiting_waves import without_begun
from vgpumgr.engine.steps.step import from_record
from vgpumgr.model.errors import HostKeyChanged, HostRefused, InUse, NotPermitted, VgpumgrError
from vgpumgr.model.operation import UNSHELVE, StepRecord, TaskRecord, TaskState
from vgpumgr.model.refusal import Refusal

# Beside the first place of a VM so many others are tried in one operation.
MOST_ALTERNATES = 4

# The beginning of the error of a task that a user had undone.
BY_REQUEST = "undone by request"

# Tasks that may be tried at another place when they were undone.
TRIED_ELSEWHERE = frozenset({"create", UNSHELVE})

_OF_GPU = frozenset({"RealiseDevice", "ActivatePartition", "PartitionGpu"})
_OF_NIC = "TakeNicFunction"
_POWER_ON = frozenset({"StartDomain", "StartEvacuated", "StartMoved", "StartReseated"})
# Room, a name, an argument: the request may be as much at fault as the host.
_OF_THE_REQUEST = frozenset({"ENOSPC", "EDQUOT", "EEXIST", "EINVAL", "ENOENT", "E2BIG"})
_WORDS = 200


@dataclass(frozen=True, slots=True)
class RefusedVm:
    """A VM that was refused: its last task, and the places that are not tried again."""

    task: TaskRecord
    gpus: frozenset[str]
    hosts: frozenset[str]


def refusal_of(
    task: TaskRecord, record: StepRecord, error: VgpumgrError, now: float
) -> Refusal | None:
    """The refusal of a GPU or host in a step's error; None where it is no refusal."""
    if task.verb not in TRIED_ELSEWHERE and record.kind not in _OF_GPU | _POWER_ON:
        return None
    device = record.kind in _OF_GPU
    barred = isinstance(error, NotPermitted) and not isinstance(error, HostKeyChanged)
    taken = isinstance(error, InUse) and (device or record.kind == _OF_NIC)
    if not (isinstance(error, HostRefused) or barred or taken):
        return None
    number = error.errno_name if isinstance(error, HostRefused) else ""
    why = _short(error, number)
    gpu = _gpu(record) if device and not barred else ""
    own = taken or number in _OF_THE_REQUEST or "No space left" in why
    return Refusal(
        at=now,
        host=record.host or task.host,
        gpu=gpu,
        vm=task.vm,
        operation=task.operation,
        task=task.id,
        what=from_record(record).summary.partition(" on ")[0],
        why=why,
        counts=bool(gpu) and not own,
        if_taken=not gpu and not own,
    )


def proven_places(task: TaskRecord) -> tuple[str, frozenset[str]]:
    """The host and the GPUs that did what a task asked, once it is done: parts of a VM that was
    there before may have been there, too, and say nothing of the GPU.
    """
    started = any(each.kind in _POWER_ON for each in task.steps)
    anew = task.verb in TRIED_ELSEWHERE
    gpus = {_gpu(each) for each in task.steps if each.kind in _OF_GPU} if anew else set()
    return (task.host if started else ""), frozenset(gpus)


def confirmed_refusals(task: TaskRecord, refusals: Iterable[Refusal]) -> list[Refusal]:
    """Refusals by other hosts of an operation's VM that its host has just started."""
    return [
        replace(each, counts=True)
        for each in refusals
        if each.vm == task.vm and each.if_taken and not each.counts and each.host != task.host
    ]


def retryable_vms(tasks: Sequence[TaskRecord], refusals: Iterable[Refusal]) -> list[RefusedVm]:
    """The VMs of an operation whose last task was undone after a refusal, as long as other places
    may be tried; a task undone by an operator stays so.
    """
    by_task = {each.task: each for each in refusals}
    places: dict[str, list[Refusal]] = {}
    last: dict[str, TaskRecord] = {}
    for task in tasks:
        if task.verb in TRIED_ELSEWHERE:
            last[task.vm] = task
            if task.id in by_task:
                places.setdefault(task.vm, []).append(by_task[task.id])
    return [
        RefusedVm(
            task=task,
            gpus=frozenset(each.gpu for each in places[name] if each.gpu),
            hosts=frozenset(each.host for each in places[name] if not each.gpu),
        )
        for name, task in last.items()
        if task.state is TaskState.UNDONE
        and task.id in by_task
        and not task.error.startswith(BY_REQUEST)
        and len(places[name]) <= MOST_ALTERNATES
    ]


def current_tasks(tasks: Sequence[TaskRecord]) -> tuple[TaskRecord, ...]:
    """The tasks of an operation without tasks that a later attempt replaced, or that waited for a
    wave which has begun.
    """
    last = {task.vm: task.id for task in tasks if task.verb in TRIED_ELSEWHERE}
    return tuple(
        task
        for task in without_begun(tasks)
        if task.verb not in TRIED_ELSEWHERE
        or task.state is not TaskState.UNDONE
        or last[task.vm] == task.id
    )


def refused_everywhere(tasks: Sequence[TaskRecord]) -> HostRefused | None:
    """The error for a VM that was tried at several places: every place, and what each said."""
    said = [f"{_where(task)}: {task.error.removeprefix(f'{task.host}: ')}" for task in tasks]
    if len(said) < 2:
        return None
    name, verb = tasks[0].vm, "started" if tasks[0].verb == UNSHELVE else "made"
    return HostRefused(
        f"{name} could be {verb} nowhere: {len(said)} places refused",
        why="; ".join(said),
        next="vgpumgr gpu list, vgpumgr host list; the same command again tries other places first",
    )


def _where(task: TaskRecord) -> str:
    devices = dict.fromkeys(
        str(part.get("parent") or part.get("device"))
        for part in map(_allocation, task.steps)
        if part is not None
    )
    return f"{task.host} {', '.join(devices)}".rstrip()


def _allocation(record: StepRecord) -> Mapping[str, object] | None:
    found = record.args.get("allocation") if record.kind in _OF_GPU else None
    return found if isinstance(found, Mapping) else None


def _gpu(record: StepRecord) -> str:
    found = record.args.get("keep") or _allocation(record)
    return str(found["gpu"]) if isinstance(found, Mapping) else ""


def _short(error: VgpumgrError, number: str) -> str:
    """The error on one line, without the path of the file that reported it."""
    text = " ".join((error.why or error.message).split()).partition(": /")[0]
    if number and number not in text:
        text = f"{number}, {text}"
    return text if len(text) <= _WORDS else f"{text[: _WORDS - 1]}…"
