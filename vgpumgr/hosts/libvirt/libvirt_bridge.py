"""A local unix socket for libvirt, bridged to a stream of ours.

libvirt's own transports have no deadlines. Because this bridge is ours, cutting it makes a blocked
libvirt call return at once.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from vgpumgr.model import ports

_PIECE = 64 << 10
_ACCEPT_S = 30.0


class BridgeStream(ports.Stream, Protocol):
    """The far end: an SSH channel that runs virt-ssh-helper, or the local daemon's socket."""

    def complaint(self) -> str:
        """What the far end said on stderr; it has ended, or was cut."""


class LibvirtBridge:
    """Accepts exactly one connection, of our own user, and joins it to ``stream``."""

    def __init__(self, stream: BridgeStream) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._near: socket.socket | None = None
        self._open = True
        self._said = ""
        self._folder = tempfile.TemporaryDirectory(prefix="vgpumgr-")
        path = Path(self._folder.name) / "libvirt"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._listener.settimeout(_ACCEPT_S)
        self.uri = f"qemu+unix:///system?socket={path}"
        threading.Thread(target=self._serve, name="vgpumgr-bridge", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Are both ends still joined, as far as was noticed?"""
        return self._open

    @property
    def complaint(self) -> str:
        """What the far end said on stderr before it ended."""
        return self._said

    def cut(self) -> None:
        """Close both ends; whoever waits on either returns. A second time does nothing."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            near = self._near
        _close(self._listener)
        if near is not None:
            _close(near)
        self._stream.close()
        self._folder.cleanup()

    def _serve(self) -> None:
        try:
            near = self._accept()
            threading.Thread(target=self._back, args=(near,), daemon=True).start()
            _pump(self._stream.recv, near.sendall)
        except OSError:
            pass  # cut, or broken on the way
        self._said = self._stream.complaint()
        self.cut()

    def _back(self, near: socket.socket) -> None:
        try:
            _pump(near.recv, self._stream.sendall)
        except OSError:
            return  # the far end is gone; the other direction sees its end and hears why
        self.cut()

    def _accept(self) -> socket.socket:
        near, _ = self._listener.accept()
        _close(self._listener)
        self._folder.cleanup()
        with self._lock:
            if self._open and _peer_uid(near) == os.geteuid():
                self._near = near
                return near
        _close(near)
        raise OSError("not ours, or too late")


def _pump(receive: Callable[[int], bytes], send: Callable[[bytes], None]) -> None:
    """Everything from one end to the other, until the first one ends."""
    while data := receive(_PIECE):
        send(data)


class SocketStream:
    """The local daemon's socket as a :class:`Stream`."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(timeout_s)
            self._socket.connect(str(path))
            self._socket.settimeout(None)
        except OSError:
            self._socket.close()
            raise

    def recv(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        return self._socket.recv(size)

    def sendall(self, data: bytes) -> None:
        """All bytes."""
        self._socket.sendall(data)

    def complaint(self) -> str:
        """A socket says nothing."""
        return ""

    def close(self) -> None:
        """Let go."""
        _close(self._socket)


def _close(sock: socket.socket) -> None:
    """Wake whoever waits on the socket, then close it."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was not connected
    sock.close()


def _peer_uid(sock: socket.socket) -> int:
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
