"""Rolling changes: waves of VMs that are stopped for a change, each once the one before runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vgpumgr.engine.migration.user_messages import tell_now
from vgpumgr.engine.migration.users_at_work import refuse_cut_off
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.refusals import current_tasks
from vgpumgr.engine.operations.waiting_waves import begin, due, waits
from vgpumgr.engine.reservation.rolling_tasks import without_seed_text
from vgpumgr.engine.steps.step import from_record
from vgpumgr.engine.steps.wave_steps import AwaitWave
from vgpumgr.engine.vms import vm_apply
from vgpumgr.model.domain import OFF, DomainState
from vgpumgr.model.errors import Conflict, Interrupted, LedgerError, RollStopped, VgpumgrError
from vgpumgr.model.formats import spanned
from vgpumgr.model.operation import ROLL, TaskMoved, TaskRecord, TaskState
from vgpumgr.model.ports import Host
from vgpumgr.model.rolling import Rolling
from vgpumgr.model.vm import VmRecord, VmSpec, VmState

POLL_S = 1.0
# It runs, but nothing in the guest tells so.
_SILENT = "its guest agent does not answer"


@dataclass(frozen=True, slots=True)
class ChangedVm:
    """A VM of a wave, and when it counts as up."""

    vm: VmRecord
    rolling: Rolling


def not_up(context: EngineContext, changed: Sequence[ChangedVm]) -> dict[str, str]:
    """By name, why a VM does not run again although it had its time; empty where all do, or where
    the wait was interrupted. VMs that were stopped by request since are not waited for.
    """
    by_host: dict[str, list[ChangedVm]] = {}
    for each in changed:
        if each.vm.running:
            by_host.setdefault(each.vm.host, []).append(each)
    work: dict[str, Callable[[], dict[str, str]]] = {
        name: partial(_until_up, context, name, group) for name, group in by_host.items()
    }
    down: dict[str, str] = {}
    for name, found in context.lanes.run(work, within_s=None).items():
        if isinstance(found, Exception):
            down |= {each.vm.name: f"{name}: {found}" for each in by_host[name]}
        else:
            down |= found
    return {} if context.stop.is_set() else down


def _until_up(context: EngineContext, host: str, group: Sequence[ChangedVm]) -> dict[str, str]:
    """Poll one host until all are up, or each that is not has had its time."""
    clock, begun = context.clock, context.clock.monotonic()
    while True:
        down = _down(context, host, group)
        over = clock.monotonic() - begun
        hoped = [each for each in group if down.get(each.vm.name) and _may_come(each, down, over)]
        if not hoped or context.stop.is_set():
            return down
        clock.wait(POLL_S)


def _may_come(each: ChangedVm, down: dict[str, str], over_s: float) -> bool:
    """Whether waiting may help: a guest that is off starts by itself no more."""
    return over_s < each.rolling.within_s and not down[each.vm.name].startswith("it is ")


def _down(context: EngineContext, name: str, group: Sequence[ChangedVm]) -> dict[str, str]:
    try:
        host = context.host(name)
        found = {each.vm.name: _why_down(host, each) for each in group}
    except VgpumgrError as error:
        return {each.vm.name: f"{name} does not tell: {error.message}" for each in group}
    return {vm: why for vm, why in found.items() if why}


def _why_down(host: Host, each: ChangedVm) -> str:
    found = host.domains.look(each.vm.name)
    if found is None:
        return "it is not defined"
    if found.state in OFF:
        return f"it is {found.state}"
    if found.state is not DomainState.RUNNING:
        return f"its guest is {found.state}"
    silent = each.rolling.agent and host.domains.guest(each.vm.name) is None
    return _SILENT if silent else ""


AGAIN = "vgpumgr apply -f FILE --restart"


@dataclass(frozen=True, slots=True)
class _RollingTask:
    """A task that waits for its wave or did, and what it says."""

    task: TaskRecord
    step: AwaitWave


@dataclass(frozen=True, slots=True)
class _Roll:
    """The tasks of an operation that rolls."""

    tasks: tuple[TaskRecord, ...]
    rolling: tuple[_RollingTask, ...]

    @property
    def last(self) -> int:
        """How many waves there are."""
        return max(each.step.wave for each in self.rolling)

    @property
    def begun(self) -> int:
        """The wave that began last."""
        return max((e.step.wave for e in self.rolling if e.task.state is TaskState.DONE), default=0)

    @property
    def next(self) -> tuple[_RollingTask, ...]:
        """The tasks of the wave that is to begin; empty where none is left."""
        waiting = [each for each in self.rolling if waits(each.task)]
        number = min((each.step.wave for each in waiting), default=0)
        return tuple(each for each in waiting if each.step.wave == number)

    @property
    def failed(self) -> list[TaskRecord]:
        """What was not done of what had begun."""
        ended = [each for each in current_tasks(self.tasks) if each.verb != ROLL]
        return [each for each in ended if each.state is not TaskState.DONE]

    def stopped(self, why: str, next: str) -> RollStopped:
        """The error that says what is done and what is not."""
        done = {t.vm_id for t in self.tasks if t.verb != ROLL and t.state is TaskState.DONE}
        changed = sum(each.task.vm_id in done for each in self.rolling)
        left = [each.task.vm for each in self.rolling if waits(each.task)]
        stays = f"; left as they were: {spanned(left)}" if left else ""
        return RollStopped(
            f"stopped after wave {self.begun} of {self.last}: "
            f"{changed} of {len(self.rolling)} VMs are changed",
            why=f"{why}{stays}",
            next=f"{next}, then {AGAIN}   (the rest follows)" if left else next,
        )


def reserve_wave(context: EngineContext, operation_id: str) -> tuple[TaskRecord, ...]:
    """The tasks, reserved, of the next wave of a rolling change; none where a task is open, or no
    wave is left. RollStopped where something failed, a changed VM does not run again, or the next
    wave may not begin.
    """
    while True:
        roll = _read(context, operation_id)
        if not roll.rolling or due(roll.tasks):
            return ()
        _require_sound(context, roll)
        if not roll.next or context.stop.is_set():
            return ()
        try:
            tasks = until_current(lambda roll=roll: _begun(context, operation_id, roll))  # type: ignore[misc]
        except (LedgerError, Interrupted):
            raise
        except VgpumgrError as error:
            why = f"{error.message} ({error.why})" if error.why else error.message
            raise roll.stopped(why, error.next or "vgpumgr vm list") from error
        if tasks:
            return tasks


def _read(context: EngineContext, operation_id: str) -> _Roll:
    tasks = context.ledger.tasks(operation_id)
    rolling = []
    for task in tasks:
        step = from_record(task.steps[0]) if task.verb == ROLL else None
        if isinstance(step, AwaitWave):
            rolling.append(_RollingTask(task, step))
    return _Roll(tasks, tuple(rolling))


def _require_sound(context: EngineContext, roll: _Roll) -> None:
    """RollStopped where the last wave failed, or does not run."""
    if failed := roll.failed:
        said = "; ".join(f"{each.vm}: {each.error or each.state}" for each in failed[:5])
        raise roll.stopped(said, f"vgpumgr vm show {failed[0].vm}")
    alive = {vm.id: vm for vm in context.ledger.vms()}
    wave = [each for each in roll.rolling if each.step.wave == roll.begun]
    changed = [
        ChangedVm(alive[each.task.vm_id], each.step.rolling)
        for each in wave
        if each.task.vm_id in alive and each.task.state is TaskState.DONE
    ]
    if down := not_up(context, changed):
        said = "; ".join(f"{name}: {why}" for name, why in list(down.items())[:5])
        raise roll.stopped(f"not up: {said}", f"vgpumgr vm show {next(iter(down))}")


def _begun(context: EngineContext, operation_id: str, roll: _Roll) -> tuple[TaskRecord, ...]:
    """The tasks of the next wave; none where all of its VMs are past it."""
    wanted = _wanted(context, roll.next)
    if not wanted:
        return ()
    number, rolled = roll.next[0].step.wave, [each.task for each, _, _ in wanted]
    vms = [vm for _, vm, _ in wanted]
    _require_free(vms)
    if roll.next[0].step.with_users:
        tell_now(context, [vm.name for vm in vms])
    else:
        refuse_cut_off(
            context, vms, next=f"wait until they have logged off, or {AGAIN} --with-users"
        )
    planned, view = vm_apply.plan(context, [spec for *_, spec in wanted])
    vm_apply.refuse(context, planned, view, partial=False, restart=True)
    opening = context.opening(context.ledger.operation(operation_id))
    start = vm_apply.reservation(context, planned, view, opening)
    if not start.tasks:
        context.ledger.record(*begin(rolled))
        return ()
    context.ledger.reserve(replace(start, continued=True, moved=tuple(begin(rolled))))
    context.tell(f"wave {number} of {roll.last}: {spanned([vm.name for vm in vms])}")
    return start.tasks


def _require_free(vms: Sequence[VmRecord]) -> None:
    for vm in vms:
        if vm.state not in {VmState.ACTIVE, VmState.SHELVED}:
            raise Conflict(
                f"{vm.name} is {vm.state}",
                why="another operation on it is not finished",
                next="vgpumgr operation list --open",
            )


def _wanted(
    context: EngineContext, wave: Sequence[_RollingTask]
) -> list[tuple[_RollingTask, VmRecord, VmSpec]]:
    """The VMs of a wave, and what they are to be. One that was deleted or changed since is left
    out: its task ends as failed.
    """
    alive = {vm.id: vm for vm in context.ledger.vms()}
    found, past = [], []
    for each in wave:
        vm = alive.get(each.task.vm_id)
        if vm is not None and without_seed_text(vm.spec) == each.step.was:
            spec = replace(each.step.spec, name=vm.name, cloud_init=vm.spec.cloud_init)
            found.append((each, vm, spec))
            continue
        why = "changed otherwise since" if vm else "the VM was deleted meanwhile"
        past.append(TaskMoved(task=each.task.id, state=TaskState.FAILED, error=why))
    if past:
        context.ledger.record(*past)
    return found
