"""One process of clients: in every round each of its threads wants the last slice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tests.race import ground
from vgpumgr.engine.engine import Engine
from vgpumgr.model.errors import StaleGeneration, VgpumgrError
from vgpumgr.model.journal import (
    OperationMoved,
    OperationState,
    Reservation,
    TaskMoved,
    TaskState,
)
from vgpumgr.model.vm import AllocationState, VmState

WON = "won"
# In every n-th round the clients read the generations at the last moment, some after the winner.
LATE_EVERY = 8
PATIENCE_S = 300.0


class Gate(Protocol):
    """Where all processes wait for each other."""

    def abort(self) -> None:
        """Let nobody wait for one that failed."""

    def wait(self, timeout: float | None = None) -> int:
        """Return when the last one has come."""


@dataclass
class Seen:
    """What one process saw: its winners of every round, answers by kind, seconds per attempt."""

    wins: list[int] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    replanned: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    doubles: int = 0


def contend(url: str, number: int, processes: int, threads: int, rounds: int, gate: Gate) -> Seen:
    """Every round of one process."""
    seen = Seen()
    with failing_together(gate), ThreadPoolExecutor(threads) as pool:
        session = ground.engine(url)
        template = ground.planned(session)
        for turn in range(rounds):
            _round(session, template, turn, number, processes, threads, gate, pool, seen)
        session.ledger.close()
    return seen


@contextmanager
def failing_together(gate: Gate) -> Iterator[None]:
    """Where one process fails, no other waits for it."""
    try:
        yield
    except BaseException:
        gate.abort()
        raise


def _round(
    session: Engine,
    template: Reservation,
    turn: int,
    number: int,
    processes: int,
    threads: int,
    gate: Gate,
    pool: ThreadPoolExecutor,
    seen: Seen,
) -> None:
    """All plan from one reading; all reserve at once; the winner gives it back."""
    gpu, host = ground.generations(session.ledger, template)
    own = [
        ground.claimant(template, f"vm-{turn}-{number}-{each}", gpu, host)
        for each in range(threads)
    ]
    start = threading.Barrier(threads)

    def attempt(wish: Reservation) -> tuple[str, float]:
        start.wait()
        if turn % LATE_EVERY == 1:  # read late: the constraint has to say it, not the generation
            wish = ground.as_read_now(wish, session.ledger)
        began = time.perf_counter()
        return _answer(session, wish), time.perf_counter() - began

    gate.wait(PATIENCE_S)
    ended = list(pool.map(attempt, own))
    gate.wait(PATIENCE_S)
    won = [each for each, (answer, _) in zip(own, ended, strict=True) if answer == WON]
    seen.wins.append(len(won))
    seen.answers.update(answer for answer, _ in ended)
    seen.seconds += [seconds for _, seconds in ended]
    if turn % processes == number:
        seen.doubles += len(ground.owners(session.ledger, template)) > 1
        told = ground.told_no(session, "late")
        seen.replanned[told.code if told and told.why else "no answer"] += 1
    gate.wait(PATIENCE_S)
    for wish in won:
        _give_back(session, template, wish)
    gate.wait(PATIENCE_S)


def _answer(session: Engine, wish: Reservation) -> str:
    """Won, or in a word what the loser is told; an answer has to say what helps."""
    try:
        session.ledger.reserve(wish)
    except VgpumgrError as error:
        assert error.message and error.why and error.next, repr(error)
        if isinstance(error, StaleGeneration):
            unit = "taken since" in error.message
            return f"{error.code}: {'unit taken' if unit else 'read too early'}"
        return f"{error.code}: {error.message}"
    return WON


def _give_back(session: Engine, template: Reservation, wish: Reservation) -> None:
    [name] = ground.owners(session.ledger, template)
    assert name == wish.vms[0].name, f"{name} holds what {wish.vms[0].name} won"
    [task] = wish.tasks
    session.ledger.record(
        TaskMoved(task=task.id, state=TaskState.UNDOING),
        TaskMoved(
            task=task.id,
            state=TaskState.UNDONE,
            vm_id=task.vm_id,
            vm_state=VmState.DELETED,
            vm_running=False,
            allocations=AllocationState.RELEASED,
        ),
        OperationMoved(operation=wish.operation.id, state=OperationState.UNDONE),
    )
