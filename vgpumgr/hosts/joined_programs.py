"""Programs on a host with stdin and stdout connected to us, over SSH or here."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from vgpumgr.hosts.program_runner import MAX_ERROR_BYTES, readable
from vgpumgr.hosts.ssh.exec_channel import ExecChannel
from vgpumgr.hosts.ssh.ssh_connection import SshConnection
from vgpumgr.model.errors import HostUnreachable

_END_S = 2.0


class RemoteProgram:
    """A program at the end of an SSH connection that nobody else uses.

    It may last for hours: it takes none of the channels that calls share.
    """

    def __init__(self, connection: SshConnection, argv: Sequence[str]) -> None:
        self._connection = connection
        try:
            self._channel: ExecChannel = connection.open(argv)
            self._channel.start()
        except BaseException:
            connection.close()
            raise

    def recv(self, size: int) -> bytes:
        """Some bytes of its output."""
        return self._channel.recv(size)

    def sendall(self, data: bytes) -> None:
        """All bytes to its input."""
        self._channel.sendall(data)

    def complaint(self) -> str:
        """What it wrote to stderr."""
        return self._channel.complaint()

    def close(self) -> None:
        """End it, and the connection."""
        self._channel.close()
        self._connection.close()


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


def remote(connect: Callable[[], SshConnection], argv: Sequence[str]) -> RemoteProgram:
    """Start a program over a new connection."""
    return RemoteProgram(connect(), argv)


def local(prefix: Sequence[str], argv: Sequence[str]) -> LocalProgram:
    """Start a program here; ``prefix`` comes before it."""
    return LocalProgram([*prefix, *argv])
