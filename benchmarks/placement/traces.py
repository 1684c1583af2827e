"""Hosts and tasks from CSV files with the columns of the openb trace, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

MILLI = 1000
"""What one GPU has: shares are counted in thousandths."""

HOST_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
TASK_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")

_Made = TypeVar("_Made")


class TraceError(Exception):
    """A file cannot be used: which one, which line, what is wrong, what it should hold."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host: thousandths of a core, MiB, and ``gpus`` GPUs of one ``model``."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """What a task asks for; tasks of one shape are interchangeable.

    ``gpu_milli`` is per GPU, below 1000 only for one GPU (a share). ``models`` empty: any.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...] = ()

    @property
    def demand(self) -> int:
        """Thousandths of GPUs in all."""
        return self.gpus * self.gpu_milli

    @property
    def share(self) -> bool:
        """Whether it asks for a part of one GPU."""
        return 0 < self.gpu_milli < MILLI

    @property
    def group(self) -> str:
        """``cpu``, ``share``, or the number of whole GPUs."""
        if self.gpus == 0:
            return "cpu"
        return "share" if self.share else str(self.gpus)


@dataclass(frozen=True, slots=True)
class Task:
    """One task; ``lifetime`` in seconds, None where the file does not tell both its ends."""

    shape: Shape
    lifetime: float | None = None


def read_hosts(path: Path) -> tuple[Host, ...]:
    """The hosts of a file; raises ``TraceError``."""
    return _read(path, HOST_COLUMNS, _host)


def read_tasks(path: Path) -> tuple[Task, ...]:
    """The tasks of a file; raises ``TraceError``."""
    tasks = _read(path, TASK_COLUMNS, _task)
    if not any(task.shape.demand for task in tasks):
        raise TraceError(f"{path}: no task asks for a GPU; num_gpu and gpu_milli are all 0")
    return tasks


def _read(
    path: Path, columns: tuple[str, ...], make: Callable[[Mapping[str, str]], _Made]
) -> tuple[_Made, ...]:
    made = []
    for line, row in _rows(path, columns):
        try:
            made.append(make(row))
        except ValueError as error:
            raise TraceError(f"{path}, line {line}: {error}") from None
    if not made:
        raise TraceError(f"{path}: has a header and nothing else")
    return tuple(made)


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, str]]]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise TraceError(
                    f"{path}: no column {', '.join(missing)}; it needs {', '.join(columns)}"
                )
            for row in reader:
                yield reader.line_num, row
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error


def _host(row: Mapping[str, str]) -> Host:
    gpus = _count(row, "gpu")
    model = row["model"] or ""
    if gpus and not model:
        raise ValueError("model is empty, but the host has GPUs")
    return Host(row["sn"], _count(row, "cpu_milli"), _count(row, "memory_mib"), gpus, model)


def _task(row: Mapping[str, str]) -> Task:
    gpus = _count(row, "num_gpu")
    milli = _count(row, "gpu_milli") if gpus else 0
    if gpus and not 0 < milli <= MILLI:
        raise ValueError(f"gpu_milli is {milli}; per GPU it is between 1 and {MILLI}")
    if gpus > 1 and milli < MILLI:
        raise ValueError(f"gpu_milli is {milli} of {gpus} GPUs; only one GPU can be shared")
    named = {model.strip() for model in (row.get("gpu_spec") or "").split("|")} - {""}
    models = tuple(sorted(named)) if gpus else ()
    shape = Shape(_count(row, "cpu_milli"), _count(row, "memory_mib"), gpus, milli, models)
    return Task(shape, _lifetime(row))


def _count(row: Mapping[str, str], column: str) -> int:
    text = row[column]
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise ValueError(f"{column} is {text!r}, not a number") from None
    if value < 0 or not value.is_integer():
        raise ValueError(f"{column} is {text}, not a whole number from 0 up")
    return int(value)


def _lifetime(row: Mapping[str, str]) -> float | None:
    """Seconds from creation to deletion, at least one."""
    begin, end = row.get("creation_time"), row.get("deletion_time")
    if not begin or not end:
        return None
    try:
        lasted = float(end) - float(begin)
    except ValueError:
        lasted = math.nan
    if not math.isfinite(lasted):
        raise ValueError(f"times are {begin!r} and {end!r}, not seconds")
    return max(1.0, lasted)
