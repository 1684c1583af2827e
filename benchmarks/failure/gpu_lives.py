"""Lives of GPUs in their places, and how each ended: read from a trace, or made by a seed."""

from __future__ import annotations

import csv
import gzip
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

FILE = "gc_full.csv.gz"
DAY_S = 86_400.0
Numbers = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GpuLives:
    """One row for each time that a GPU was in a place: ``gpu`` and ``blade`` are numbers, times are
    Unix seconds, ``failed`` whether an error ended it. ``digest`` is the input's SHA-256.
    """

    gpu: Numbers
    blade: Numbers
    begins: Times
    ends: Times
    failed: npt.NDArray[np.bool_]
    digest: str


def read_titan(folder: Path) -> GpuLives:
    """olcf/TitanGPULife (Ostrouchov et al., SC20), ``gc_full.csv.gz``.

    A GPU counts from when it was first seen to when it was last: what lies between two of its rows
    (moved, or seen again after an error) belongs to the later one.
    """
    data = (folder / FILE).read_bytes()
    listed = csv.DictReader(gzip.decompress(data).decode().splitlines())
    rows = sorted(
        (row for row in listed if row["remove"]), key=lambda row: (row["SN"], row["remove"])
    )
    ends = np.array([_seconds(row["remove"]) for row in rows])
    begins, before = [], ("", 0.0)
    for row, end in zip(rows, ends, strict=True):
        first = _seconds(row["insert"]) if row["insert"] else float(end)
        begins.append(before[1] if before[0] == row["SN"] else first)
        before = (row["SN"], float(end))
    return GpuLives(
        gpu=_numbered([row["SN"] for row in rows]),
        blade=_numbered([row["location"].rpartition("n")[0] for row in rows]),
        begins=np.array(begins),
        ends=ends,
        failed=np.array([bool(row["event"]) for row in rows]),
        digest=hashlib.sha256(data).hexdigest(),
    )


def synthetic(gpus: int = 2000, years: float = 5.0, seed: int = 42) -> GpuLives:
    """A stand-in: one GPU in forty fails at times, and after a failure soon again."""
    rng = np.random.default_rng(seed)
    end = years * 365 * DAY_S
    rows: list[tuple[int, int, float, float, bool]] = []
    for gpu in range(gpus):
        here, weak = 0.0, rng.random() < 0.025
        while here < end:
            mean = (60 if weak else 4000) * DAY_S
            if rows and rows[-1][0] == gpu and rows[-1][4] and rng.random() < 0.3:
                mean = 3 * DAY_S
            last = min(end, here + float(rng.exponential(mean)))
            rows.append((gpu, gpu // 4, here, last, last < end))
            here = last + 3600.0
    columns = list(zip(*rows, strict=True))
    return GpuLives(
        gpu=np.array(columns[0]),
        blade=np.array(columns[1]),
        begins=np.array(columns[2], dtype=float),
        ends=np.array(columns[3], dtype=float),
        failed=np.array(columns[4], dtype=bool),
        digest=f"synthetic, seed {seed}",
    )


def _numbered(names: list[str]) -> Numbers:
    return np.unique(np.array(names), return_inverse=True)[1].astype(np.int64)


def _seconds(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
