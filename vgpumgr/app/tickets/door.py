"""A listener on the loopback that joins one viewer to a VM's console."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Collection
from contextlib import suppress

from vgpumgr.app.tickets import rfb
from vgpumgr.app.tickets.peer import peer_uid
from vgpumgr.app.tickets.secret import Half
from vgpumgr.hosts.deadline import DEADLINES
from vgpumgr.model.errors import DeadlineExceeded, HostUnreachable
from vgpumgr.model.ports import Door, Stream
from vgpumgr.model.ticket import DoorSeen

# So many wrong passwords close a door; so many viewers may be at it at once, each for so long (its
# user types the password meanwhile).
TRIES = 4
AT_ONCE = 4
ADMIT_S = 60.0
_BACKLOG = 64
_ROOT = 0
_AGAIN_S = 0.1
_PIECE = 64 << 10


class LoopbackDoors:
    """Fulfils ``ports.Doors``. ``timeout_s`` is how long a console's handshake may take."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def open(self, console: Stream, key: str, uids: Collection[int] = ()) -> Door:
        """A door on 127.0.0.1, at a port that is free; without one the console is closed.

        Viewers are the programs of ``uids`` (none: of our own user) and of root, and no others.
        """
        try:
            return self._open(console, key, frozenset({_ROOT, *(uids or (os.geteuid(),))}))
        except BaseException:
            console.close()
            raise

    def _open(self, console: Stream, key: str, allowed: frozenset[int]) -> Door:
        half = Half()
        password = half.password(key)
        with DEADLINES.within(self._timeout_s, console.close) as deadline:
            try:
                rfb.greet(console)
            except OSError as error:
                kind = DeadlineExceeded if deadline.fired else HostUnreachable
                raise kind("the console does not answer", why=str(error)) from error
        return LoopbackDoor(console, password, half.public, allowed)


class LoopbackDoor:
    """Fulfils ``ports.Door``. ``allowed`` are the uids whose programs may be viewers.

    The port is ours until the end: where it were free, any local user could listen on it and carry
    the handshake of the viewer who knows the password here.
    """

    def __init__(
        self, console: Stream, password: str, answer: str, allowed: frozenset[int]
    ) -> None:
        self.answer = answer
        self._console = console
        self._password = password
        self._allowed = allowed
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._at_the_door: set[socket.socket] = set()
        self._strangers = 0
        self._failed = 0
        self._joined: socket.socket | None = None
        self._sent = 0
        self._ended = ""
        self._listener = _listener()
        host, port = self._listener.getsockname()
        self.address = f"{host}:{port}"
        for work in (self._accept, self._back):
            threading.Thread(target=work, name="vgpumgr-door", daemon=True).start()

    def look(self) -> DoorSeen:
        """How it stands."""
        with self._lock:
            return DoorSeen(self._joined is not None, self._sent, self._ended, self._strangers)

    def close(self) -> None:
        """Let nobody in any more, and part who is joined."""
        self._end("it was closed")

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                viewer, _ = self._listener.accept()
            except OSError:  # it is the end, or no file can be opened now
                self._over.wait(_AGAIN_S)
                continue
            if self._may_try(viewer):
                threading.Thread(target=self._meet, args=(viewer,), daemon=True).start()
            else:
                _shut(viewer)

    def _may_try(self, viewer: socket.socket) -> bool:
        uid = _uid(viewer)
        ours = uid in self._allowed
        with self._lock:
            self._strangers += uid is not None and not ours
            full = len(self._at_the_door) >= AT_ONCE
            if not ours or full or self._joined is not None or self._ended:
                return False
            self._at_the_door.add(viewer)
            return True

    def _meet(self, viewer: socket.socket) -> None:
        knows: bool | None = None
        with DEADLINES.within(ADMIT_S, lambda: _wake(viewer)), suppress(OSError):
            knows = rfb.admit(viewer, self._password)
        if knows and self._let_in(viewer):
            self._join(viewer)
            return
        _shut(viewer)
        with self._lock:
            self._at_the_door.discard(viewer)
            self._failed += knows is False
            last = self._failed == TRIES
        if last:
            self._end(f"{TRIES} connections came, none of them with the password")

    def _let_in(self, viewer: socket.socket) -> bool:
        """The first one is; the others go."""
        with self._lock:
            if self._joined is not None or self._ended:
                return False
            self._joined = viewer
            others = self._at_the_door - {viewer}
        for each in others:
            _wake(each)
        return True

    def _join(self, viewer: socket.socket) -> None:
        with suppress(OSError):  # it may have been parted already
            viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while piece := viewer.recv(_PIECE):
                self._console.sendall(piece)
                self._sent += len(piece)
        self._end("the viewer disconnected")

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
            viewers = list(self._at_the_door)
        self._over.set()
        for each in (self._listener, *viewers):
            _shut(each)
        self._console.close()


def _listener() -> socket.socket:
    """At a free port of 127.0.0.1, which nobody else can bind while it is open.

    Not by ``socket.create_server``: its SO_REUSEADDR shares a port with any other user who asks.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.bind(("127.0.0.1", 0))
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _uid(viewer: socket.socket) -> int | None:
    """Whose program it is; None, which nobody is, where the kernel does not say."""
    try:
        return peer_uid(viewer)
    except OSError:
        return None


def _wake(sock: socket.socket) -> None:
    """Whoever waits on it goes on, and finds its end."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _shut(sock: socket.socket) -> None:
    """Wake whoever waits on it, then close it."""
    _wake(sock)
    sock.close()
