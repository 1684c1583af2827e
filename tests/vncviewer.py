"""A VNC viewer (RFB 3.8) as far as a test needs one."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from vgpumgr.app.vnc_handshake import greet, response
from vgpumgr.model.ports import Stream

VERSION = b"RFB 003.008\n"
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Screen:
    """What the server said of its screen."""

    width: int
    height: int
    name: str


class Viewer:
    """Connects to ``127.0.0.1:PORT`` at once."""

    def __init__(self, address: str, over: Stream | None = None) -> None:
        """``over``: a connection that there is already."""
        host, _, port = address.rpartition(":")
        connection: Any = over
        self.socket = connection or socket.create_connection((host, int(port)), TIMEOUT_S)

    def log_in(self, password: str) -> str:
        """Shake hands with the password; the server's reason where it lets nobody in."""
        assert self.read(12) == VERSION
        self.socket.sendall(VERSION)
        kinds = self.read(self.read(1)[0])
        assert kinds == b"\2", "only with a password"
        self.socket.sendall(b"\2")
        self.socket.sendall(response(self.read(16), password))
        (refused,) = struct.unpack(">I", self.read(4))
        return self.text() if refused else ""

    def greet(self) -> None:
        """Shake hands with a server that asks for no password."""
        greet(self.socket)

    def press(self) -> None:
        """Press a key, and let it go."""
        for down in (1, 0):
            self.socket.sendall(struct.pack(">BBxxI", 4, down, ord("a")))

    def screen(self) -> Screen:
        """Begin, and read what the screen is."""
        self.socket.sendall(b"\1")
        width, height = struct.unpack(">HH16x", self.read(20))
        return Screen(width, height, self.text())

    def picture(self, width: int, height: int) -> bytes:
        """The screen's upper left corner, pixel by pixel, four bytes each."""
        self.socket.sendall(struct.pack(">BxHi", 2, 1, 0))
        self.socket.sendall(struct.pack(">BBHHHH", 3, 0, 0, 0, width, height))
        kind, count = struct.unpack(">BxH", self.read(4))
        assert kind == 0
        data = b""
        for _ in range(count):
            *_, wide, high, encoding = struct.unpack(">HHHHi", self.read(12))
            assert encoding == 0
            data += self.read(4 * wide * high)
        return data

    def text(self) -> str:
        """A length, and so many bytes."""
        (length,) = struct.unpack(">I", self.read(4))
        return self.read(length).decode()

    def read(self, size: int) -> bytes:
        """So many bytes; ConnectionError where it ends before."""
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the server has gone")
            data += piece
        return data

    def ended(self) -> bool:
        """Wait for the server's end."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()
