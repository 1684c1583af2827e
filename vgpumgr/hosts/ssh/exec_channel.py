"""A program running on the other end of an SSH channel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

import paramiko

from vgpumgr.hosts.deadlines import DEADLINES
from vgpumgr.hosts.program_runner import (
    MAX_ERROR_BYTES,
    MAX_OUTPUT_BYTES,
    CallCut,
    CompletedProgram,
    readable,
)
from vgpumgr.model.errors import HostUnreachable

_PIECE = 64 << 10
_LAST_WORDS_S = 1.0


class ExecChannel:
    """One channel; :meth:`start` sends the command. ``done`` is called once, at close."""

    def __init__(
        self, channel: paramiko.Channel, command: str, done: Callable[[], None], timeout_s: float
    ) -> None:
        self._channel = channel
        self._command = command
        self._done: Callable[[], None] | None = done
        self._timeout_s = timeout_s
        self._lock = threading.Lock()

    def start(self) -> None:
        """Ask the host to run the command; HostUnreachable when it refused or said nothing."""
        with DEADLINES.within(self._timeout_s, self._channel.close):
            try:
                self._channel.exec_command(self._command)
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise HostUnreachable(
                    "the host did not start our program", why=str(error) or "no answer"
                ) from error

    def complete(self, stdin: bytes, timeout_s: float) -> CompletedProgram:
        """Run to the end; see ``runner.Runner``."""
        self.start()
        with DEADLINES.within(timeout_s, self._channel.close) as deadline:
            try:
                out = self._exchange(stdin)
                err = self._read_error()
                status = self._channel.recv_exit_status()
            except (paramiko.SSHException, EOFError, OSError) as error:
                if not deadline.fired:
                    raise CallCut(f"the connection broke: {error}") from error
                status = -1
        if deadline.fired:
            raise CallCut(f"no answer within {timeout_s:g} s", timed_out=True)
        if status == -1:
            raise CallCut("the connection broke before the program ended")
        return CompletedProgram(status, out, readable(err))

    def _exchange(self, stdin: bytes) -> bytes:
        try:
            self._channel.sendall(stdin)
            self._channel.shutdown_write()
        except OSError:
            # The program ended without reading: its status and stderr say why.
            if not self._channel.exit_status_ready():
                raise
        out = bytearray()
        while piece := self._channel.recv(_PIECE):
            out += piece
            if len(out) > MAX_OUTPUT_BYTES:
                raise CallCut(f"more than {MAX_OUTPUT_BYTES} bytes of output")
        return bytes(out)

    def _read_error(self) -> bytes:
        err = bytearray()
        while piece := self._channel.recv_stderr(_PIECE):
            err += piece[: MAX_ERROR_BYTES - len(err)]
        return bytes(err)

    def recv(self, size: int) -> bytes:
        """The next bytes of its output; none at its end. OSError when cut."""
        return self._channel.recv(size)

    def sendall(self, data: bytes) -> None:
        """All of ``data`` to its input; OSError when it is gone."""
        self._channel.sendall(data)

    def complaint(self) -> str:
        """What it wrote to stderr, after its output ended."""
        self._channel.settimeout(_LAST_WORDS_S)
        try:
            return readable(self._read_error())
        except OSError:
            return ""

    def close(self) -> None:
        """End it; a second time does nothing."""
        with self._lock:
            done, self._done = self._done, None
        if done is not None:
            self._channel.close()
            done()

    def __enter__(self) -> ExecChannel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
