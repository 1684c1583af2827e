"""Work in a process of its own, which is left alone where it takes too long.

A driver that hangs holds who asks it inside the kernel, where no signal reaches; what has asked can
only be left alone, and must not be joined by another every few seconds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

_PAUSE_S = 0.05
_PIECE = 64 << 10
_FAILED = "failed"
_children: list[int] = []


def run(work: Callable[[], Any], seconds: float, alone: str) -> Any:
    """What ``work`` returns, which is JSON. ``alone`` is a file that it holds until its very end.

    OSError: ETIMEDOUT where it takes longer than ``seconds``, EBUSY where earlier work still holds
    the file after half that time, EPROTO where it failed.
    """
    until = time.monotonic() + seconds
    _reap()
    with _held(alone, until - seconds / 2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)  # else its answer has a reader even when the caller is gone
            _be_the_child(work, writing)
        _children.append(child)
        os.close(writing)
    try:
        text = _read(reading, until)
    finally:
        os.close(reading)
    if text is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        raise OSError(errno.ETIMEDOUT, f"no answer within {seconds:g} s")
    _reap()
    return _result(text)


@contextlib.contextmanager
def _held(path: str, until: float) -> Iterator[None]:
    """The child inherits the lock: it is free again when the child, too, is gone."""
    place = Path(path)
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(place, flags, 0o600)
    try:
        while not _locked(handle):
            if time.monotonic() >= until:
                raise OSError(errno.EBUSY, "an earlier one still waits for its answer")
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _be_the_child(work: Callable[[], Any], writing: int) -> NoReturn:
    """Nothing of the caller's is kept open: who reads from the caller waits for its end."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        text = json.dumps(_worked(work)).encode()
        while text:
            text = text[os.write(writing, text) :]
        os.close(writing)
    finally:
        os._exit(0)


def _worked(work: Callable[[], Any]) -> Any:
    try:
        return [work()]
    except Exception as defect:  # the caller has no other way to hear of it
        return {_FAILED: f"{type(defect).__name__}: {defect}"}


def _read(reading: int, until: float) -> bytes | None:
    """Everything to the end; None where that does not come in time."""
    found = b""
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return None
        piece = os.read(reading, _PIECE)
        if not piece:
            return found
        found += piece


def _result(text: bytes) -> Any:
    try:
        told = json.loads(text)
    except ValueError:
        raise OSError(errno.EPROTO, "it died before it answered") from None
    if isinstance(told, dict):
        raise OSError(errno.EPROTO, str(told[_FAILED]))
    return told[0]


def _reap() -> None:
    """Take note of children that have ended; one that hangs is not waited for."""
    for child in list(_children):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG)[0] == 0:
                continue
        _children.remove(child)
