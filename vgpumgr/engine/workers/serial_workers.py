"""One worker for all hosts, in the given order: for runs on virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from vgpumgr.engine.workers.thread_workers import kept, result_or_error
from vgpumgr.model.ports import WAIT_LIMITS, PendingAnswers, WaitPolicy

T = TypeVar("T")
K = TypeVar("K")


class TurnableClock(Protocol):
    """A clock whose time passes only in waits, and that can be turned."""

    def monotonic(self) -> float:
        """Seconds."""

    def turn_to(self, monotonic: float) -> None:
        """Set the time."""


class SerialWorkers:
    """One host after the other. With a ``clock`` looks take the time that they would take side by
    side, and hosts that would not be waited for are left out; without one they take none.
    """

    def __init__(self, clock: TurnableClock | None = None) -> None:
        self._clock = clock

    def run(
        self, work: Mapping[str, Callable[[], T]], within_s: float | None = WAIT_LIMITS.look_s
    ) -> dict[str, T | Exception]:
        """Run all, one after the other; none is ever left alone."""
        return {host: result_or_error(job) for host, job in work.items()}

    def look(
        self, work: Mapping[str, Callable[[], T]], keep: Callable[[str, T], K]
    ) -> PendingAnswers[K]:
        """Looks in the given order."""
        if self._clock is None:
            return _OneByOne(work, keep)
        return _SideBySide(work, keep, self._clock)


class _OneByOne(Generic[T, K]):
    """Each answer is kept before the next host is asked, and no host is ever left out."""

    def __init__(self, work: Mapping[str, Callable[[], T]], keep: Callable[[str, T], K]) -> None:
        self._due = dict(work)
        self._keep = keep
        self._answers: dict[str, K | Exception] = {}

    @property
    def answers(self) -> Mapping[str, K | Exception]:
        """The answers of hosts by now."""
        return self._answers

    def wait(self, waiting: WaitPolicy) -> Mapping[str, float]:
        """Ask all."""
        for host, job in self._due.items():
            self._answers[host] = kept(self._keep, host, result_or_error(job))
        self.leave()
        return {}

    def leave(self) -> None:
        """No effect: every host has answered."""
        self._due.clear()


@dataclass(frozen=True, slots=True)
class _Answer(Generic[T]):
    at: float
    value: T | Exception


class _SideBySide(Generic[T, K]):
    """All are asked at one time, which comes back for each; then the answers come as they would."""

    def __init__(
        self,
        work: Mapping[str, Callable[[], T]],
        keep: Callable[[str, T], K],
        clock: TurnableClock,
    ) -> None:
        self._work = work
        self._keep = keep
        self._clock = clock
        self._began = clock.monotonic()
        self._coming: dict[str, _Answer[T]] | None = None
        self._took: dict[str, float] = {}
        self._answers: dict[str, K | Exception] = {}

    @property
    def answers(self) -> Mapping[str, K | Exception]:
        """The answers of hosts by now."""
        return self._answers

    def wait(self, waiting: WaitPolicy) -> Mapping[str, float]:
        """Answers in the order of their time, until no host is waited for."""
        if self._coming is None:
            self._coming = self._asked()
        coming = self._coming
        while coming:
            so_far = self._clock.monotonic() - self._began
            silent = dict.fromkeys(coming, so_far)
            until = so_far + max(waiting.more_s(self._took, silent), 0.0)
            host = min(coming, key=lambda each: coming[each].at)
            at = coming[host].at
            self._clock.turn_to(self._began + max(so_far, min(until, at)))
            if until < at:
                return dict.fromkeys(coming, until)
            self._take(host, coming.pop(host))
        return {}

    def leave(self) -> None:
        """Late answers are dropped."""
        self._coming = {}

    def _asked(self) -> dict[str, _Answer[T]]:
        self._began = self._clock.monotonic()
        found: dict[str, _Answer[T]] = {}
        for host, job in self._work.items():
            self._clock.turn_to(self._began)
            value = result_or_error(job)
            found[host] = _Answer(self._clock.monotonic() - self._began, value)
        self._clock.turn_to(self._began)
        return found

    def _take(self, host: str, answer: _Answer[T]) -> None:
        self._answers[host] = kept(self._keep, host, answer.value)
        if not isinstance(answer.value, Exception):
            self._took[host] = answer.at
