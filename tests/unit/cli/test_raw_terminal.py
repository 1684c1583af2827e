"""A console in a real terminal: keys go as they are typed, and at its end all is as before."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

PROGRAM = """
import socket, sys
from vgpumgr.cli.raw_terminal import show_console
console = socket.socket(fileno=int(sys.argv[1]))
show_console(console)
print("left")
"""
DEADLINE_S = 20.0


@dataclass
class Typed:
    """A person at a terminal whose program is joined to ``guest``."""

    pid: int
    terminal: int
    guest: socket.socket
    before: list[object]

    def says(self, handle: int | socket.socket, want: bytes) -> bytes:
        """All that came there until it was said."""
        said, until = b"", time.monotonic() + DEADLINE_S
        while want not in said:
            assert time.monotonic() < until, said
            if select.select([handle], [], [], 0.5)[0]:
                try:
                    said += os.read(_number(handle), 4096)
                except OSError:
                    break
        return said

    def ended(self) -> int:
        """The exit status."""
        until = time.monotonic() + DEADLINE_S
        while (found := os.waitpid(self.pid, os.WNOHANG)) == (0, 0):
            assert time.monotonic() < until
            time.sleep(0.01)
        return os.waitstatus_to_exitcode(found[1])

    @property
    def restored(self) -> bool:
        return termios.tcgetattr(self.terminal) == self.before


def _number(handle: int | socket.socket) -> int:
    return handle if isinstance(handle, int) else handle.fileno()


@contextmanager
def typing() -> Iterator[Typed]:
    near, far = socket.socketpair()
    near.set_inheritable(True)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM, str(near.fileno())])
    near.close()
    before = termios.tcgetattr(terminal)
    made = Typed(pid, terminal, far, before)
    far.sendall(b"login: ")
    made.says(terminal, b"login: ")
    assert not made.restored, "every key goes at once"
    with far:
        yield made
    os.close(terminal)


def test_keys_go_as_they_are_typed_and_ctrl_bracket_leaves() -> None:
    with typing() as user:
        os.write(user.terminal, b"root\r\x03\x04\x1a")
        assert user.says(user.guest, b"\x1a") == b"root\r\x03\x04\x1a"
        user.guest.sendall(b"\x1b[31mhello\r\n")
        assert b"\x1b[31mhello\r\n" in user.says(user.terminal, b"hello\r\n")
        os.write(user.terminal, b"bye\x1dnever sent")
        assert user.says(user.guest, b"bye") == b"bye"
        user.says(user.terminal, b"left")
        assert user.restored
        assert user.ended() == 0


def test_it_ends_with_the_console() -> None:
    with typing() as user:
        user.guest.shutdown(socket.SHUT_RDWR)
        user.says(user.terminal, b"left")
        assert (user.restored, user.ended()) == (True, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_process_that_is_told_to_end_restores_the_terminal(number: signal.Signals) -> None:
    with typing() as user:
        os.kill(user.pid, number)
        status = user.ended()
        assert (user.restored, status) == (True, 128 + number)
