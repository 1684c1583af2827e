"""Validates a run again from its placements alone, by arithmetic of its own.

It knows neither the product's core nor the baselines' engine: hosts are plain counters. What it
finds is an ``InvalidPlacement``; what it returns are the figures that a report needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.placement.policy import Place
from benchmarks.placement.sequences import Arrivals
from benchmarks.placement.traces import MILLI, Host, Shape


class InvalidPlacement(Exception):
    """A placement breaks a hard constraint: which request, which host, what it lacks."""


@dataclass(slots=True)
class Ledger:
    """What is free on one host."""

    host: Host
    cpu_milli: int
    memory_mib: int
    gpus: list[int]

    def hold(self, shape: Shape, gpus: Sequence[int]) -> None:
        """Take it, or say what is wrong; nothing may become negative."""
        self._check(shape, gpus)
        self.cpu_milli -= shape.cpu_milli
        self.memory_mib -= shape.memory_mib
        for number in gpus:
            self.gpus[number] -= shape.gpu_milli

    def free(self, shape: Shape, gpus: Sequence[int]) -> None:
        """Give back what ``hold`` took; nothing may exceed the host."""
        self.cpu_milli += shape.cpu_milli
        self.memory_mib += shape.memory_mib
        for number in gpus:
            self.gpus[number] += shape.gpu_milli
        if self.cpu_milli > self.host.cpu_milli or max(self.gpus, default=0) > MILLI:
            raise InvalidPlacement(f"{self.host.name}: more was given back than was taken")

    def _check(self, shape: Shape, gpus: Sequence[int]) -> None:
        if len(set(gpus)) != len(gpus) or len(gpus) != shape.gpus:
            raise InvalidPlacement(f"{self.host.name}: {shape.gpus} GPUs asked, got {gpus}")
        if any(not 0 <= number < self.host.gpus for number in gpus):
            raise InvalidPlacement(f"{self.host.name} has {self.host.gpus} GPUs, got {gpus}")
        if gpus and shape.models and self.host.model not in shape.models:
            raise InvalidPlacement(f"{self.host.name}: {self.host.model} is not of {shape.models}")
        if self.cpu_milli < shape.cpu_milli or self.memory_mib < shape.memory_mib:
            raise InvalidPlacement(f"{self.host.name}: too little CPU or memory for {shape}")
        if any(self.gpus[number] < shape.gpu_milli for number in gpus):
            raise InvalidPlacement(f"{self.host.name}: too little left of GPUs {gpus} for {shape}")


@dataclass(frozen=True, slots=True)
class Moment:
    """The fleet after an event: thousandths of GPUs arrived so far, and held now."""

    event: int
    arrived: int
    held: int
    ledgers: Sequence[Ledger]


def replay(arrivals: Arrivals, places: Mapping[int, Place | None]) -> Iterator[Moment]:
    """Every event again; raises ``InvalidPlacement``. A request without an entry was refused."""
    ledgers = [Ledger(h, h.cpu_milli, h.memory_mib, [MILLI] * h.gpus) for h in arrivals.hosts]
    arrived = held = 0
    for event in arrivals.events.tolist():
        request = event if event >= 0 else ~event
        shape = arrivals.shapes[arrivals.kinds[request]]
        place = places.get(request)
        arrived += shape.demand if event >= 0 else 0
        if place is not None:
            ledger = ledgers[place.host]
            (ledger.hold if event >= 0 else ledger.free)(shape, place.gpus)
            held += shape.demand if event >= 0 else -shape.demand
        yield Moment(event, arrived, held, ledgers)
