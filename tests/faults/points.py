"""Kill points: every moment just before or after something durable, and the fuse that burns there.

A process counts its points as it passes them. The run that is not disturbed tells their names; any
other is killed at the n-th.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.engine import steps
from vgpumgr.model.journal import (
    OperationMoved,
    Reservation,
    StepMoved,
    StepState,
    TaskMoved,
    TaskRecord,
    Transition,
)

BEFORE, AFTER, EFFECT = "before", "after", "effect"
# What a step does on its host between these and the next write is its effect.
_ACTING = frozenset({StepState.INTENT, StepState.UNDO_INTENT})


@dataclass(frozen=True, slots=True)
class Point:
    """``at``: before or after a durable write, or after an effect; ``what`` is written or done."""

    at: str
    what: tuple[str, ...]

    @property
    def plain(self) -> list[Any]:
        return [self.at, list(self.what)]

    def __str__(self) -> str:
        return f"{self.at} {', '.join(self.what)}"


def point(plain: Sequence[Any]) -> Point:
    """A point as a process told it."""
    return Point(plain[0], tuple(plain[1]))


@dataclass(slots=True)
class Fuse:
    """Kills this process at its ``at``-th point (0: never); ``tell`` hears of each point passed."""

    at: int
    tell: Callable[[Any], None]
    passed: int = 0
    acting: str = ""
    _steps: dict[tuple[str, int], str] = field(default_factory=dict)
    _tasks: dict[str, str] = field(default_factory=dict)

    def pass_(self, at: str, *what: str) -> None:
        """One point."""
        self.passed += 1
        if not self.at or self.passed == self.at:
            self.tell(Point(at, what).plain)
        if self.passed == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def learn(self, tasks: Sequence[TaskRecord]) -> None:
        """The steps of tasks, by which their transitions are named."""
        for task in tasks:
            self._tasks[task.id] = task.verb
            for record in task.steps:
                self._steps[task.id, record.seq] = f"{task.verb} {kind_of(record)}"

    def knows(self, transition: Transition) -> bool:
        """Were its task's steps learnt?"""
        return isinstance(transition, OperationMoved) or transition.task in self._tasks

    def words(self, transition: Transition) -> str:
        """What a transition writes: ``create RealiseDevice intent``."""
        match transition:
            case StepMoved():
                return f"{self._steps[transition.task, transition.seq]} {transition.state}"
            case TaskMoved():
                return f"{self._tasks[transition.task]} task {transition.state}"
            case OperationMoved():
                return f"operation {transition.state}"

    def follow(self, transitions: Sequence[Transition]) -> None:
        """Whose effects come next."""
        for each in transitions:
            if isinstance(each, StepMoved):
                doing = each.state in _ACTING
                self.acting = self.words(each) if doing else ""


def reserved(start: Reservation) -> str:
    """What a reservation writes."""
    return f"reserve {start.operation.kind}"


def kind_of(record: Any) -> str:
    """A step's kind; a layout's change names its part too."""
    if record.kind == steps.ChangePart.__name__:
        return f"{record.kind}:{record.args['change']['kind']}"
    return str(record.kind)
