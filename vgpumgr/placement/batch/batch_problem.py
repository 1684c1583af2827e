"""A batch problem: an order and its hosts as numbers for the solver, and the solver's answer.

GPUs whose states are told apart by free units alone are a number of units each; of all others
it is told what they can be filled with. vCPUs, memory, GPUs and partitions of NVSwitches are in
it; NUMA nodes, huge pages and pinned CPUs are not: the exact fit knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

Filling = tuple[int, ...]
"""Parts (numbers of columns) in an order in which a GPU takes them."""


@dataclass(frozen=True, slots=True)
class SharedGpus:
    """``gpus`` (numbers on the host) with ``units`` free each; ``sizes`` is (column, units).

    ``whole`` are columns of parts that take a GPU as a whole.
    """

    gpus: tuple[int, ...]
    units: int
    sizes: tuple[tuple[int, int], ...]
    whole: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FilledGpus:
    """``gpus`` in one state, each of which can be filled in any one of these ways.

    ``whole`` are columns of parts that take a GPU as a whole.
    """

    gpus: tuple[int, ...]
    fillings: tuple[Filling, ...]
    whole: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bin:
    """A host. ``takes`` are the groups that its rules allow.

    Where an NVSwitch connects its GPUs, ``partitions`` are those (by their numbers) that may go
    whole to one VM together, and every GPU is listed by itself.
    """

    vcpus: int
    memory_mib: int
    takes: tuple[int, ...]
    shared: tuple[SharedGpus, ...]
    filled: tuple[FilledGpus, ...]
    partitions: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class BatchGroup:
    """``count`` VMs that are alike; each needs (column, how many), ``milli`` of a GPU in all."""

    vcpus: int
    memory_mib: int
    needs: tuple[tuple[int, int], ...]
    count: int
    milli: int


@dataclass(frozen=True, slots=True)
class BatchProblem:
    """Which VMs go on which host, so that the most of them find a place.

    They have to be more than ``above``, and take no less GPU than ``milli``: no VM of eight GPUs
    is given up for two small ones.
    ``effort`` is in seconds of a machine that is always as fast; ``seconds`` ends it on any other.
    """

    bins: tuple[Bin, ...]
    groups: tuple[BatchGroup, ...]
    above: int
    milli: int
    effort: float
    seconds: float


Seat = tuple[int, int]
"""A part on a GPU of the host: the number of the GPU, and the column."""


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """By bin the VMs by group (group, how many), and seats in the order in which to fill them.

    Both are empty where nothing better was found. ``effort`` is what it took.
    """

    held: tuple[tuple[tuple[int, int], ...], ...]
    seats: tuple[tuple[Seat, ...], ...]
    effort: float


NOTHING_BETTER = BatchAnswer((), (), 0.0)

Solve = Callable[[BatchProblem], BatchAnswer | None]
"""None: there was no answer, and there is no use in asking again."""

Solver = Callable[[], AbstractContextManager[Solve | None]]
"""Opens what solves the problems of one order, and closes it after it; None: there is no solver."""
