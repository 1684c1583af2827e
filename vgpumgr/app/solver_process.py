"""The solver of batches as a process of its own, because CP-SAT and HiGHS cannot share one."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from vgpumgr.placement.batch.batch_problem import BatchAnswer, BatchProblem, Solve


STARTS_S = 20.0
"""What an answer may take besides: Python, ortools, and the problem as text."""

_PIECE = 1 << 16


@contextmanager
def solving(module: str = "vgpumgr.placement.batch") -> Iterator[Solve | None]:
    """A process that solves; it is gone afterwards. Without an answer in time it is ended.

    None where ortools is not installed (extra ``solver``).
    """
    from vgpumgr.placement.batch.cp_sat import solver_is_there

    if not solver_is_there():
        yield None
        return
    argv, pipe = [sys.executable, "-m", module], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        try:
            yield lambda problem: _ask(process, problem)
        finally:
            process.kill()
            with suppress(OSError):  # what it was not able to read any more
                process.stdin.close()


def _ask(process: subprocess.Popen[bytes], problem: BatchProblem) -> BatchAnswer | None:
    from vgpumgr.placement.batch.batch_problem import BatchAnswer, BatchProblem

    assert process.stdin is not None
    try:
        process.stdin.write(TypeAdapter(BatchProblem).dump_json(problem) + b"\n")
        process.stdin.flush()
        line = _line(process, time.monotonic() + problem.seconds + STARTS_S)
        return TypeAdapter(BatchAnswer).validate_json(line)
    except (OSError, ValidationError):
        return None


def _line(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """What it says until the end of a line; cut short where it ends, or is late."""
    assert process.stdout is not None
    said = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not said.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                break
            piece = os.read(process.stdout.fileno(), _PIECE)
            if not piece:
                break
            said += piece
    return bytes(said)
