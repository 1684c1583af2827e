"""Simulated fleets that start quickly: forked from a process that has imported the simulator once.

What runs is what ``vgpumgr sim up`` starts, in a process and a session of its own; only Python's
start and its imports, two thirds of the time until a small fleet answers, are not repeated.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

from vgpumgr.sim import control


class Forked:
    """As much of ``Popen`` as is asked of a fleet's process: it is its forker's child, not ours."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            self.returncode = 1
        return self.returncode


class Forker:
    """The process with everything imported; it ends when we do."""

    def __init__(self) -> None:
        argv = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(self._end)

    def start(self, state: Path) -> Forked:
        """The fleet of this folder, in the place of ``control._start``."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(os.fsencode(state.absolute()) + b"\n")
        self._process.stdin.flush()
        return Forked(int(self._process.stdout.readline()))

    def _end(self) -> None:
        self._process.communicate()


@cache
def _forker() -> Forker:
    return Forker()


@contextmanager
def quick() -> Iterator[None]:
    """Fleets that this process switches on meanwhile are forked."""
    with mock.patch.object(control, "_start", _forker().start):
        yield


def _fork_for_ever() -> None:
    from vgpumgr.sim import sim_server

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        state = Path(os.fsdecode(line.rstrip(b"\n")))
        pid = os.fork()
        if pid == 0:
            _become_of(state)
            sim_server.main(state)
        print(pid, flush=True)


def _become_of(state: Path) -> None:
    """What ``control._start`` gives a fleet's process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(state / control._LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for here, there in ((nothing, 0), (nothing, 1), (log, 2)):
        os.dup2(here, there)


if __name__ == "__main__":
    _fork_for_ever()
