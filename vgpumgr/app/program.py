"""A program on this machine: argument list in, what it said out. No shell and no input."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

MOST_BYTES = 64 << 10
_PIECE = 4096


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended. ``code`` None: it did not end by itself, and ``why`` says more."""

    code: int | None
    out: str = ""
    why: str = ""


def run(argv: Sequence[str], limit_s: float) -> Ran:
    """Run it to its end, or kill it with all it started: too slow, or too much said."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, ValueError) as error:
        return Ran(None, why=f"{argv[0]}: {getattr(error, 'strerror', None) or error}")
    with process:
        return _until_end(process, time.monotonic() + limit_s, limit_s)


def _until_end(process: subprocess.Popen[bytes], deadline: float, limit_s: float) -> Ran:
    assert process.stdout is not None and process.stderr is not None
    said = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    why = _read(said, deadline)
    if not why:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            why = "late"
    if why:
        with suppress(ProcessLookupError):  # it is not waited for yet: the group is its own
            os.killpg(process.pid, signal.SIGKILL)
        return Ran(None, why="it printed too much" if why == "long" else _late(limit_s))
    out, error = (bytes(each).decode(errors="replace") for each in said.values())
    return Ran(process.returncode, out=out, why=_last_line(error))


def _read(said: dict[int, bytearray], deadline: float) -> str:
    """Fill the buffers until both ends are closed; ``late`` or ``long`` where that fails."""
    with selectors.DefaultSelector() as selector:
        for descriptor in said:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return "late"
            for key, _ in selector.select(left):
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    selector.unregister(key.fd)
                said[key.fd] += piece
                if len(said[key.fd]) > MOST_BYTES:
                    return "long"
    return ""


def _late(limit_s: float) -> str:
    return f"it did not end within {limit_s:g} s"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else ""
