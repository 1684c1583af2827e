"""The faults of a simulated host's calls: latency, hangs, refusals and false answers."""

from __future__ import annotations

import errno
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import HostUnreachable, UsageError
from vgpumgr.sim.fault_forms import FORMS

# In a path: every name of an object, every number of a list that is there.
ANY = "*"
# In the place of a value: the part is not there at all.
ABSENT = "absent"


class Lies:
    """What is replaced, by verb of the helper or of libvirt: ``(path, JSON)``."""

    def __init__(self) -> None:
        self._told: dict[str, list[tuple[str, str]]] = {}

    def add(self, verb: str, path: str, text: str) -> None:
        """``path`` is dotted (``result.nvml.gpus.0.name``; empty: all), ``text`` JSON or ABSENT."""
        if text != ABSENT:
            try:
                json.loads(text)
            except ValueError:
                raise UsageError(f"{text[:60]!r} is not JSON", next=f"JSON, or {ABSENT}") from None
        self._told.setdefault(verb, []).append((path, text))

    def clear(self) -> None:
        """The truth from now on."""
        self._told.clear()

    def of(self, verb: str) -> bool:
        """Is anything of this verb's answer a lie?"""
        return verb in self._told

    def told(self, verb: str, answer: Any) -> Any:
        """The answer with its lies in place."""
        found = self._told.get(verb)
        if not found:
            return answer
        plain = {"": json.loads(json.dumps(to_plain(answer)))}
        for path, text in found:
            _put(plain, ["", *(path.split(".") if path else ())], text)
        return plain.get("")

    def words(self) -> tuple[str, ...]:
        """In the words of ``inject``, cut where they are long."""
        told = ((verb, *each) for verb, lies in self._told.items() for each in lies)
        return tuple(f"lie {verb} {path} {text[:60]}" for verb, path, text in told)


def _put(into: Any, path: Sequence[str], text: str) -> None:
    name, *rest = path
    for key in _keys(into, name):
        if rest:
            _put(into[key], rest, text)
        elif text == ABSENT:
            del into[key]
        else:
            into[key] = json.loads(text)


def _keys(into: Any, name: str) -> list[Any]:
    if isinstance(into, Mapping):
        return list(into) if name == ANY else [name]
    if isinstance(into, list):
        numbers = range(len(into))
        return list(numbers) if name == ANY else [n for n in numbers if name == str(n)]
    return []


@dataclass(slots=True)
class VerbRefusals:
    """The next ``count`` calls of a verb fail with ``number``."""

    number: int
    count: int


@dataclass(slots=True)
class Faults:
    """What is wrong with one host now. Threads wait in it, one for each call that came in.

    ``powered`` False: it is switched off, which ``clear`` does not change. ``driver_hangs``: who
    asks NVIDIA's driver waits until ``clear``.
    """

    latency_s: float = 0.0
    hanging: bool = False
    unreachable: bool = False
    powered: bool = True
    driver_hangs: bool = False
    refusals: dict[str, VerbRefusals] = field(default_factory=dict)
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
                case ["driver-hang"]:
                    self.driver_hangs = True
                case ["refuse", verb, name, count]:
                    self.refusals[verb] = VerbRefusals(_errno(name), count_of(count))
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

    def wait_for_driver(self) -> None:
        """Wait as long as NVIDIA's driver lets a call wait."""
        with self._changed:
            self._changed.wait_for(lambda: not self.driver_hangs)

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
        found += ["driver-hang"] if self.driver_hangs else []
        found += [] if self.powered else ["off"]
        found += [
            f"refuse {verb} {errno.errorcode[each.number]} {each.count}"
            for verb, each in self.refusals.items()
        ]
        found += self.lies.words()
        return tuple(found)

    def _clear(self) -> None:
        self.latency_s, self.hanging, self.unreachable = 0.0, False, False
        self.driver_hangs = False
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
