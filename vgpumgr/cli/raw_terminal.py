"""A console in the user's terminal: raw bytes both ways, until ctrl-] or the console's end.

What a guest writes is the terminal's to show, as with any remote login. Without a terminal standard
input and output are joined to the console as they are.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from vgpumgr.model.actor import carried
from vgpumgr.model.ports import Stream

LEAVE = b"\x1d"
"""Ctrl-]: what leaves the console."""
QUIET_S = 1.0
"""Once standard input has ended, this long without a word of the console is its end."""
_PIECE = 4096


def at_terminal() -> bool:
    """Is a person there?"""
    return sys.stdin.isatty() and sys.stdout.isatty()


def show_console(console: Stream) -> None:
    """Join the console to this process's standard input and output; it is closed at the end."""
    try:
        if at_terminal():
            _at_terminal(console)
        else:
            _by_pipes(console)
    finally:
        console.close()


def _at_terminal(console: Stream) -> None:
    keyboard, screen = sys.stdin.fileno(), sys.stdout.fileno()
    woken, waker = os.pipe()

    def show() -> None:
        with suppress(OSError):
            while piece := console.recv(_PIECE):
                _written(screen, piece)
        os.write(waker, b"\0")

    with raw(keyboard, waker):
        threading.Thread(target=carried(show), name="console", daemon=True).start()
        while True:
            ready, _, _ = select.select([keyboard, woken], [], [])
            typed = os.read(keyboard, _PIECE) if keyboard in ready else b""
            before, leaves, _ = typed.partition(LEAVE)
            with suppress(OSError):  # its end is heard, too
                console.sendall(before) if before else None
            if leaves or woken in ready or (keyboard in ready and not typed):
                return


@contextmanager
def raw(keyboard: int, waker: int) -> Iterator[None]:
    """Every key as it is typed while the block lasts; the terminal is as before at its end, also
    where the process is told to end: then something is written to ``waker``, which wakes who waits.
    """
    os.set_blocking(waker, False)
    beside = signal.set_wakeup_fd(waker)
    before = termios.tcgetattr(keyboard)
    ending = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setraw(keyboard)
        yield
    finally:
        termios.tcflush(keyboard, termios.TCIFLUSH)  # what is typed on is no command
        termios.tcsetattr(keyboard, termios.TCSANOW, before)
        signal.set_wakeup_fd(beside)
        for number, handler in ending.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _by_pipes(console: Stream) -> None:
    heard_at = time.monotonic()
    over = threading.Event()

    def show() -> None:
        nonlocal heard_at
        with suppress(OSError):
            while piece := console.recv(_PIECE):
                heard_at = time.monotonic()
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
        over.set()

    def tell() -> None:
        with suppress(OSError):
            while piece := sys.stdin.buffer.read1(_PIECE):  # type: ignore[union-attr]
                console.sendall(piece)
        told.set()

    told = threading.Event()
    for work in (show, tell):
        threading.Thread(target=carried(work), name="console", daemon=True).start()
    while not over.wait(QUIET_S / 10):
        if told.is_set() and time.monotonic() - heard_at >= QUIET_S:
            return


def _written(screen: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(screen, view) :]
