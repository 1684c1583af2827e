"""Clients that race by the ledger's own call: one plan each, made from the same reading."""

from __future__ import annotations

from tests.race import ground
from tests.race.meeting import Meeting
from tests.race.seen import WON, Seen
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.errors import StaleGeneration, VgpumgrError
from vgpumgr.model.operation import (
    OperationMoved,
    OperationState,
    Reservation,
    TaskMoved,
    TaskState,
)
from vgpumgr.model.vm import VmState

# In every n-th round the clients read the generations at the last moment, some after the winner.
LATE_EVERY = 16


class Reserving:
    """One controller that reserves the last slice, with a ledger of its own."""

    def __init__(self, url: str, number: int, template: Reservation, meeting: Meeting) -> None:
        self._engine = ground.engine(url)
        self._number = number
        self._template = template
        self._meeting = meeting
        self._wish = template

    def ready(self, turn: int) -> None:
        """A plan of its own."""
        self._wish = ground.claimant(self._template, f"vm-{turn}-{self._number}")

    def attempt(self, turn: int) -> str:
        """Reserve; an answer has to say what helps."""
        ledger = self._engine.ledger
        late = turn % LATE_EVERY == 1  # the constraint has to say it, not the generation
        read = ground.generations(ledger, self._template) if late else self._meeting.generations
        self._wish = ground.planned_from(self._wish, *read)
        try:
            ledger.reserve(self._wish)
        except VgpumgrError as error:
            return _told(error)
        return WON

    def give_back(self, turn: int, seen: Seen) -> None:
        """What the engine tells a latecomer is asked now and then; the next round's reading."""
        ledger = self._engine.ledger
        owners = ground.owners(ledger, self._template)
        seen.doubles += len(owners) > 1
        if turn % LATE_EVERY == 0:
            told = ground.told_no(self._engine, "late")
            seen.anew[told.code if told and told.why else "no answer"] += 1
        assert self._wish.vms[0].name in owners, f"{owners} hold what {self._wish.vms[0].name} won"
        self._undo()
        self._meeting.generations = ground.generations(ledger, self._template)

    def close(self) -> None:
        """Let go of the ledger."""
        self._engine.ledger.close()

    def _undo(self) -> None:
        [task] = self._wish.tasks
        self._engine.ledger.record(
            TaskMoved(task=task.id, state=TaskState.UNDOING),
            TaskMoved(
                task=task.id,
                state=TaskState.UNDONE,
                vm_id=task.vm_id,
                vm_state=VmState.DELETED,
                vm_running=False,
                allocations=AllocationState.RELEASED,
            ),
            OperationMoved(operation=self._wish.operation.id, state=OperationState.UNDONE),
        )


def _told(error: VgpumgrError) -> str:
    assert error.message and error.why and error.next, repr(error)
    if isinstance(error, StaleGeneration):
        unit = "taken since" in error.message
        return f"{error.code}: {'unit taken' if unit else 'read too early'}"
    return f"{error.code}: {error.message}"
