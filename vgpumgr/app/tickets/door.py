"""A listener on the loopback that joins one viewer to a VM's console."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from vgpumgr.app.tickets import rfb
from vgpumgr.app.tickets.secret import Half
from vgpumgr.hosts.deadline import DEADLINES
from vgpumgr.model.errors import DeadlineExceeded, HostUnreachable
from vgpumgr.model.ports import Door, Stream
from vgpumgr.model.ticket import DoorSeen

# Every local user can reach the loopback: so many may try, and each of them once.
TRIES = 4
_PIECE = 64 << 10


class LoopbackDoors:
    """Fulfils ``ports.Doors``. ``timeout_s`` is how long a console's handshake may take."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def open(self, console: Stream, key: str) -> Door:
        """A door on 127.0.0.1, at a port that is free; without one the console is closed."""
        try:
            return self._open(console, key)
        except BaseException:
            console.close()
            raise

    def _open(self, console: Stream, key: str) -> Door:
        half = Half()
        password = half.password(key)
        with DEADLINES.within(self._timeout_s, console.close) as deadline:
            try:
                rfb.greet(console)
            except OSError as error:
                kind = DeadlineExceeded if deadline.fired else HostUnreachable
                raise kind("the console does not answer", why=str(error)) from error
        return LoopbackDoor(console, password, half.public)


class LoopbackDoor:
    """Fulfils ``ports.Door``."""

    def __init__(self, console: Stream, password: str, answer: str) -> None:
        self.answer = answer
        self._console = console
        self._password = password
        self._lock = threading.Lock()
        self._viewers: list[socket.socket] = []
        self._failed = 0
        self._joined: socket.socket | None = None
        self._sent = 0
        self._ended = ""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=TRIES)
        host, port = self._listener.getsockname()
        self.address = f"{host}:{port}"
        for work in (self._accept, self._back):
            threading.Thread(target=work, name="vgpumgr-door", daemon=True).start()

    def look(self) -> DoorSeen:
        """How it stands."""
        with self._lock:
            return DoorSeen(self._joined is not None, self._sent, self._ended)

    def close(self) -> None:
        """Let nobody in any more, and part who is joined."""
        self._end("it was closed")

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed when one is in, or at the end
            for _ in range(TRIES):
                viewer, _ = self._listener.accept()
                with self._lock:
                    self._viewers.append(viewer)
                    is_late = self._joined is not None or bool(self._ended)
                if is_late:
                    _shut(viewer)
                    break
                threading.Thread(target=self._meet, args=(viewer,), daemon=True).start()
        _shut(self._listener)

    def _meet(self, viewer: socket.socket) -> None:
        try:
            knows = rfb.admit(viewer, self._password)
        except OSError:
            knows = False
        if knows and self._let_in(viewer):
            self._join(viewer)
            return
        _shut(viewer)
        with self._lock:
            self._failed += 1
            last = self._failed == TRIES
        if last:
            self._end(f"{TRIES} connections came, none of them with the password")

    def _let_in(self, viewer: socket.socket) -> bool:
        """The first one is; the others go."""
        with self._lock:
            if self._joined is not None or self._ended:
                return False
            self._joined = viewer
            others = [each for each in self._viewers if each is not viewer]
        for each in (self._listener, *others):
            _shut(each)
        return True

    def _join(self, viewer: socket.socket) -> None:
        with suppress(OSError):  # it may have been parted already
            viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while piece := viewer.recv(_PIECE):
                self._console.sendall(piece)
                self._sent += len(piece)
        self._end("the viewer has left")

    def _back(self) -> None:
        """The console says nothing before a viewer is in: until then this waits for its end."""
        with suppress(OSError):
            while (piece := self._console.recv(_PIECE)) and self._joined is not None:
                self._joined.sendall(piece)
        self._end("the console has ended")

    def _end(self, why: str) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = why
            viewers = list(self._viewers)
        for each in (self._listener, *viewers):
            _shut(each)
        self._console.close()


def _shut(sock: socket.socket) -> None:
    """Wake whoever waits on it, then close it."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
