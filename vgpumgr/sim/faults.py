"""Making a simulated host misbehave."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from vgpumgr.model.errors import HostUnreachable, UsageError
from vgpumgr.sim.false_answers import Lies
from vgpumgr.sim.forms import FORMS


@dataclass(slots=True)
class Refusals:
    """The next ``count`` calls of a verb fail with ``number``."""

    number: int
    count: int


@dataclass(slots=True)
class Faults:
    """What is wrong with one host now. Threads wait in it, one for each call that came in.

    ``powered`` False: it is switched off, which ``clear`` does not change.
    """

    latency_s: float = 0.0
    hanging: bool = False
    unreachable: bool = False
    powered: bool = True
    refusals: dict[str, Refusals] = field(default_factory=dict)
    lies: Lies = field(default_factory=Lies)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def inject(self, words: Sequence[str]) -> None:
        """Set one fault from the words a user typed; UsageError names the forms."""
        with self._changed:
            match list(words):
                case ["latency", seconds]:
                    self.latency_s = _seconds(seconds)
                case ["hang"]:
                    self.hanging = True
                case ["unreachable"]:
                    self.unreachable = True
                case ["refuse", verb, name, count]:
                    self.refusals[verb] = Refusals(_errno(name), count_of(count))
                case ["lie", verb, path, text]:
                    self.lies.add(verb, path, text)
                case ["clear"]:
                    self._clear()
                case _:
                    raise _usage(f"{' '.join(words)!r} is not a known fault")
            self._changed.notify_all()

    def pass_through(self, host: str) -> None:
        """Wait as long as the host lets a call wait; HostUnreachable when it lets none in.

        A call that hung goes on when the fault is cleared, whether or not its caller still waits.
        """
        if self.latency_s:
            time.sleep(self.latency_s)
        with self._changed:
            self._changed.wait_for(lambda: not self.hanging)
        if self.unreachable or not self.powered:
            raise HostUnreachable(
                f"cannot reach {host}",
                why="No route to host",
                next=f"vgpumgr sim inject {host} {'clear' if self.powered else 'on'}",
            )

    def refusal_of(self, verb: str) -> int:
        """The errno that this call of the verb fails with, or 0; counted down."""
        found = self.refusals.get(verb)
        if found is None:
            return 0
        found.count -= 1
        if not found.count:
            del self.refusals[verb]
        return found.number

    def words(self) -> tuple[str, ...]:
        """What is wrong, in the words of ``inject``."""
        found = [f"latency {self.latency_s:g}"] if self.latency_s else []
        found += ["hang"] if self.hanging else []
        found += ["unreachable"] if self.unreachable else []
        found += [] if self.powered else ["off"]
        found += [
            f"refuse {verb} {errno.errorcode[each.number]} {each.count}"
            for verb, each in self.refusals.items()
        ]
        found += self.lies.words()
        return tuple(found)

    def _clear(self) -> None:
        self.latency_s, self.hanging, self.unreachable = 0.0, False, False
        self.refusals.clear()
        self.lies.clear()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise _usage(f"{text!r} is not a number of seconds")
    return seconds


def count_of(text: str) -> int:
    """A number from 1 on; UsageError for anything else."""
    if not text.isdigit() or int(text) < 1:
        raise _usage(f"{text!r} is not a count")
    return int(text)


def _errno(name: str) -> int:
    number = getattr(errno, name, None) if name.startswith("E") else None
    if not isinstance(number, int):
        raise _usage(f"{name!r} is not an errno")
    return number


def _usage(message: str) -> UsageError:
    return UsageError(message, next=FORMS)
