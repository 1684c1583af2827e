"""The outcome of an operation, VM by VM, with its text for users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr.model.errors import Conflict, Interrupted, PartlyDone, VgpumgrError
from vgpumgr.model.formats import clock
from vgpumgr.model.layout import GpuChange
from vgpumgr.model.operation import (
    FINAL_TASKS,
    LAYOUT,
    OF_HOSTS,
    OF_IMAGES,
    OperationState,
    TaskRecord,
    TaskState,
    worked_on,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmOutcome:
    """One VM's end: its task's state, and the error if there was one.

    ``peer`` is the other host of a migration, or the lost one of an evacuation.
    """

    vm: str
    host: str
    verb: str
    state: TaskState
    error: VgpumgrError | None = None
    peer: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host that it was about."""
        return worked_on(self.verb, self.host, self.peer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One operation's end. ``operation`` is empty when there was nothing to do.

    ``ways_on`` are the commands for an interrupted operation, ``left_until`` is when `serve`
    resumes it (Unix seconds). ``stopped`` is why a rolling change did not go on, or its last wave
    does not run.
    """

    operation: str = ""
    vms: tuple[VmOutcome, ...] = ()
    interrupted: bool = False
    ways_on: str = ""
    left_until: float | None = None
    stopped: VgpumgrError | None = None

    @property
    def done(self) -> tuple[VmOutcome, ...]:
        """The VMs with finished tasks."""
        return tuple(vm for vm in self.vms if vm.state is TaskState.DONE)

    @property
    def waiting(self) -> frozenset[str]:
        """The VMs with unfinished tasks: their hosts refuse, or do not answer."""
        return frozenset(vm.vm for vm in self.vms if vm.state not in FINAL_TASKS)

    @property
    def state(self) -> OperationState:
        """The operation's state that follows from its tasks."""
        return operation_state([vm.state for vm in self.vms])

    def then(self, later: Outcome) -> Outcome:
        """Both, where the later one has the last word on a VM."""
        vms = {vm.vm: vm for vm in (*self.vms, *later.vms)}
        last = later if later.operation else self
        return replace(
            last, vms=tuple(vms.values()), interrupted=later.interrupted or self.interrupted
        )

    def of(self, tasks: Iterable[TaskRecord]) -> Outcome:
        """The outcome of these tasks alone."""
        names = {task.vm for task in tasks}
        return replace(self, vms=tuple(vm for vm in self.vms if vm.vm in names))

    def less(self, left: Mapping[tuple[str, str], GpuChange]) -> Outcome:
        """The outcome without finished tasks whose effect is missing at a second look.

        ``left`` is by host and name: a host that reboots between two steps forgets the first.
        """

        def checked(vm: VmOutcome) -> VmOutcome:
            change = left.get((vm.host, vm.vm))
            if change is None or vm.state is not TaskState.DONE:
                return vm
            why = ", ".join(change.differences) or change.refused
            error = Conflict(f"{vm.vm} on {vm.host} still differs from its declaration", why=why)
            return replace(vm, state=TaskState.FAILED, error=error)

        return replace(self, vms=tuple(checked(vm) for vm in self.vms))

    def _count(self) -> str:
        verbs = {vm.verb for vm in self.vms}
        what = "GPUs" if verbs <= {LAYOUT} else "hosts" if verbs <= OF_HOSTS | OF_IMAGES else "VMs"
        return f"{len(self.done)} of {len(self.vms)} {what} are done"

    def raise_for_failure(self) -> None:
        """Interrupted, why a rolling change stopped, the one VM's own error, or PartlyDone; nothing
        when all is done.
        """
        if self.interrupted:
            raise Interrupted(
                f"interrupted: {self._count()}",
                why=f"running host calls were allowed to finish{self._left()}",
                next=self.ways_on or f"vgpumgr operation resume {self.operation}",
            )
        if self.stopped is not None:
            raise self.stopped
        bad = [vm for vm in self.vms if vm.state is not TaskState.DONE]
        if not bad:
            return
        if len(self.vms) == 1 and bad[0].error is not None:
            error = bad[0].error
            error.next = error.next or self._again()
            raise error
        raise PartlyDone(
            self._count(),
            why=_why(bad),
            next=self._again(),
        )

    def _left(self) -> str:
        if self.left_until is None:
            return ""
        return f"; serve will finish it at {clock(self.left_until)} unless you type:"

    def _again(self) -> str:
        return f"vgpumgr operation show {self.operation}; the same command resumes it"


def operation_state(tasks: Sequence[TaskState]) -> OperationState:
    """The operation's state that follows from its tasks'."""
    states = set(tasks)
    if states & {TaskState.PENDING, TaskState.RUNNING, TaskState.UNDOING}:
        return OperationState.INTERRUPTED
    if states <= {TaskState.DONE}:
        return OperationState.DONE
    if states == {TaskState.UNDONE}:
        return OperationState.UNDONE
    return OperationState.PARTLY if TaskState.DONE in states else OperationState.FAILED


def _why(bad: Sequence[VmOutcome], most: int = 5) -> str:
    lines = [f"{vm.vm} on {vm.host}: {words(vm)}" for vm in bad[:most]]
    rest = len(bad) - len(lines)
    return "; ".join([*lines, *([f"and {rest} more"] if rest > 0 else [])])


def words(vm: VmOutcome) -> str:
    """The VM's error with its cause, or its state."""
    error = vm.error
    if error is None:
        return str(vm.state)
    return f"{error.message} ({error.why})" if error.why else error.message
