"""Programs on a host, run to their end or joined to us by pipes, and those of this machine."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Protocol

from vgpumgr.model.errors import HostUnreachable
from vgpumgr.model.ports import Stream

# A host of 64 GPUs with 64 VFs and a claim each answers in less than 2 MiB.
MAX_OUTPUT_BYTES = 4 << 20
MAX_ERROR_BYTES = 64 << 10
_END_S = 2.0


class CallCut(Exception):
    """A program was started and its end was not seen: it may or may not have done its work."""

    def __init__(self, why: str, *, timed_out: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class CompletedProgram:
    """A program that ended. ``err`` is the beginning of what it wrote to stderr."""

    status: int
    out: bytes
    err: str


class Runner(Protocol):
    """Runs programs on one host."""

    def run(self, argv: Sequence[str], stdin: bytes, timeout_s: float) -> CompletedProgram:
        """Run one program to its end.

        Raises HostUnreachable when it surely was not started, CallCut when its end was not seen
        or its output was longer than 4 MiB.
        """


class LocalRunner:
    """Programs of this machine; ``prefix`` comes before each of them (``nsenter …``)."""

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self._prefix = tuple(prefix)

    def run(self, argv: Sequence[str], stdin: bytes, timeout_s: float) -> CompletedProgram:
        """Run one program; a missing one ends with status 127, as a shell would say."""
        try:
            ended = subprocess.run(
                [*self._prefix, *argv],
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except FileNotFoundError as error:
            return CompletedProgram(127, b"", str(error))
        except PermissionError as error:
            return CompletedProgram(126, b"", str(error))
        except subprocess.TimeoutExpired as error:
            raise CallCut(f"no answer within {timeout_s:g} s", timed_out=True) from error
        if len(ended.stdout) > MAX_OUTPUT_BYTES:
            raise CallCut(f"more than {MAX_OUTPUT_BYTES} bytes of output")
        return CompletedProgram(ended.returncode, ended.stdout, readable(ended.stderr))


def readable(data: bytes) -> str:
    """What a program wrote to stderr, for a message."""
    return data[:MAX_ERROR_BYTES].decode("utf-8", "replace").strip()


class JoinedProgram(Stream, Protocol):
    """A program's stdin and stdout."""

    def complaint(self) -> str:
        """What it wrote to stderr, after its output ended."""


StartProgram = Callable[[Sequence[str]], JoinedProgram]
"""Starts a program on the host, over a connection that ends with it; HostUnreachable."""


class LocalProgram:
    """A program of this machine."""

    def __init__(self, argv: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            raise HostUnreachable(f"{argv[0]} cannot be started", why=str(error)) from error
        self._ending = threading.Lock()

    def recv(self, size: int) -> bytes:
        """Some bytes of its output."""
        return os.read(_number(self._process.stdout), size)

    def sendall(self, data: bytes) -> None:
        """All bytes to its input."""
        view = memoryview(data)
        while view:
            view = view[os.write(_number(self._process.stdin), view) :]

    def complaint(self) -> str:
        """What it wrote to stderr."""
        assert self._process.stderr is not None
        return readable(self._process.stderr.read(MAX_ERROR_BYTES))

    def close(self) -> None:
        """End it: a program that sudo started hears of it by the end of its input."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        assert process.stderr is not None
        with self._ending:
            with suppress(OSError):
                process.stdin.close()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
            process.stderr.close()


def _number(pipe: IO[bytes] | None) -> int:
    """OSError where it was closed."""
    if pipe is None or pipe.closed:
        raise OSError("it was closed")
    return pipe.fileno()


def start_local(prefix: Sequence[str], argv: Sequence[str]) -> LocalProgram:
    """Start a program here; ``prefix`` comes before it."""
    return LocalProgram([*prefix, *argv])
