"""Kill points: every moment just before or after something durable, and the fuse that burns there.

A process counts its points as it passes them. The run that is not disturbed tells their names; any
other is killed at the n-th.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.engine.steps.layout_steps import ChangePart
from vgpumgr.model.operation import (
    OperationMoved,
    PlaceRefused,
    PlaceServed,
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


def moments(passed: Iterable[Point]) -> tuple[int, ...]:
    """The numbers of points whose moments differ: just before a write is just after the last."""
    return tuple(number for number, each in enumerate(passed, 1) if each.at != BEFORE)


@dataclass(frozen=True, slots=True)
class Pair:
    """A kill at point ``at``, and others at these points of the end that follows on it."""

    at: int
    end: str
    seconds: tuple[int, ...]

    @property
    def plain(self) -> list[Any]:
        return [self.at, self.end, list(self.seconds)]


def pair(plain: Sequence[Any]) -> Pair:
    """The reverse."""
    return Pair(plain[0], plain[1], tuple(plain[2]))


@dataclass
class Fuse:
    """Kills this process at its ``at``-th point (0: never); ``tell`` hears of that one before.

    ``points`` are those that were passed, told by nobody: to tell is to be interrupted.
    """

    at: int
    tell: Callable[[Any], None]
    points: list[Point] = field(default_factory=list)
    acting: str = ""
    _steps: dict[tuple[str, int], str] = field(default_factory=dict)
    _tasks: dict[str, str] = field(default_factory=dict)

    def pass_(self, at: str, *what: str) -> None:
        """One point."""
        self.points.append(Point(at, what))
        if len(self.points) == self.at:
            self.tell([self.points[-1].plain])
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
            case PlaceRefused():
                return f"{self._tasks[transition.task]} refused"
            case PlaceServed():
                return f"{self._tasks[transition.task]} served"

    def follow(self, transitions: Sequence[Transition]) -> None:
        """Whose effects come next."""
        for each in transitions:
            if isinstance(each, StepMoved):
                doing = each.state in _ACTING
                self.acting = self.words(each) if doing else ""


class Cut(BaseException):
    """A process that ends here, without a word, while its hosts live on beside it."""


class Wire(Fuse):
    """Cuts at the first point of these words: ``after create DefineDomain done``."""

    def __init__(self, words: str) -> None:
        super().__init__(0, lambda _: None)
        self._words = words

    def pass_(self, at: str, *what: str) -> None:
        if any(self._words == f"{at} {each}" for each in what):
            raise Cut


def reserved(start: Reservation) -> str:
    """What a reservation writes."""
    return f"reserve {start.operation.kind}"


def kind_of(record: Any) -> str:
    """A step's kind; a layout's change names its part too."""
    if record.kind == ChangePart.__name__:
        return f"{record.kind}:{record.args['change']['kind']}"
    return str(record.kind)
