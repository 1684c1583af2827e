"""The joined helper of a simulated host: both ends of the connection to it."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from typing import BinaryIO

from vgpumgr.sim.simulated_fleet import SimulatedFleet

_MAX_LINE = 1 << 20
_PIECE = 64 << 10


def serve(fleet: SimulatedFleet, host: str, caller: socket.socket, asked: BinaryIO) -> None:
    """Take one request, a line; answer on one, and go on as the connection until it ends."""
    request = json.loads(asked.readline(_MAX_LINE) or b"{}")
    answer, console = fleet.joined(host, request)
    caller.sendall(json.dumps(answer).encode() + b"\n")
    if console is not None:
        with console:
            threading.Thread(target=_pump, args=(asked, console), daemon=True).start()
            with suppress(OSError):
                while piece := console.recv(_PIECE):
                    caller.sendall(piece)
    with suppress(OSError):
        caller.shutdown(socket.SHUT_RDWR)


def _pump(asked: BinaryIO, console: socket.socket) -> None:
    with suppress(OSError, ValueError):  # closed meanwhile
        while piece := asked.read1(_PIECE):  # type: ignore[attr-defined]  # a socket's file has it
            console.sendall(piece)
    with suppress(OSError):
        console.shutdown(socket.SHUT_RDWR)


class SocketProgram:
    """The caller's end: fulfils ``hosts.program_runner.JoinedProgram`` over a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def recv(self, size: int) -> bytes:
        """Some bytes of its output."""
        return self._connection.recv(size)

    def sendall(self, data: bytes) -> None:
        """All bytes to its input."""
        self._connection.sendall(data)

    def complaint(self) -> str:
        """It has no stderr."""
        return ""

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
