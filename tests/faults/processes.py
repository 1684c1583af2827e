"""Forked processes: work in one of its own, and what it told us before it ended or was killed."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Tell = Callable[[Any], None]

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class Ended:
    """How a process ended: ``error`` is what it raised, ``told`` what it said, in order."""

    status: int
    seconds: float
    told: list[Any] = field(default_factory=list)
    error: str = ""

    @property
    def killed(self) -> bool:
        """By SIGKILL, and not because it took too long."""
        return not self.error and os.WIFSIGNALED(self.status)


def fork() -> int:
    """As ``os.fork``; the child ends with us, and copies no page for the garbage collector."""
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        gc.disable()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return pid


def run(work: Callable[[Tell], None], deadline_s: float) -> Ended:
    """Do ``work`` in a forked process and wait for its end; past the deadline it is killed."""
    began = time.monotonic()
    read, write = os.pipe()
    pid = fork()
    if pid == 0:
        os.close(read)
        _child(work, write)
    os.close(write)
    lines = _lines(read, began + deadline_s)
    late = lines is None
    if late:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    ended = Ended(status, time.monotonic() - began)
    if late:
        ended.error = f"not ended after {deadline_s:.0f} s"
    for line in lines or ():
        kind, value = json.loads(line)
        if kind == "raised":
            ended.error = value
        else:
            ended.told.append(value)
    return ended


def _child(work: Callable[[Tell], None], write: int) -> None:
    """Never returns: neither ``atexit`` nor anybody's ``finally`` belongs to this process."""

    def tell(value: Any, kind: str = "told") -> None:
        os.write(write, (json.dumps([kind, value]) + "\n").encode())

    status = 0
    try:
        work(tell)
    except BaseException:
        tell(traceback.format_exc(), "raised")
        status = 1
    finally:
        sys.stdout.flush()
        os._exit(status)


def _lines(read: int, deadline: float) -> list[bytes] | None:
    """Everything up to the end of the pipe; None when that does not come in time."""
    pieces: list[bytes] = []
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([read], [], [], left)[0]:
                return None
            piece = os.read(read, 1 << 16)
            if not piece:
                return b"".join(pieces).splitlines()
            pieces.append(piece)
    finally:
        os.close(read)
