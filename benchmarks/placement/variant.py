"""How the tasks of a file arrive: one after the other, in sorted windows, or with departures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.placement.sequences import Arrivals, inflation, turnover, windowed
from benchmarks.placement.traces import Host, Task


@dataclass(frozen=True, slots=True)
class Variant:
    """Plain where both are 0: tasks in random order, none leaves."""

    window: int = 0
    load: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Variant:
        """``plain``, ``windows:200`` or ``departures:0.95``; raises ValueError."""
        name, _, value = text.partition(":")
        if text == "plain":
            return cls()
        if name == "windows" and value.isdigit() and int(value) > 0:
            return cls(window=int(value))
        if name == "departures" and 0 < _number(value or "1") <= 10:
            return cls(load=_number(value or "1"))
        raise ValueError(f"{text!r} is not plain, windows:SIZE or departures[:LOAD]")

    def arrivals(self, hosts: Sequence[Host], tasks: Sequence[Task], seed: int) -> Arrivals:
        """The sequence under this seed; raises ``TraceError`` without lifetimes to depart by."""
        if self.load:
            return turnover(hosts, tasks, seed, self.load)
        plain = inflation(hosts, tasks, seed)
        return windowed(plain, self.window) if self.window else plain

    def __str__(self) -> str:
        if self.load:
            return f"departures:{self.load:g}"
        return f"windows:{self.window}" if self.window else "plain"


PLAIN = Variant()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
