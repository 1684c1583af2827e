"""The console proxy: a loopback listener per ticket joins one local viewer to a VM's console."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress

from vgpumgr.app import vnc_handshake
from vgpumgr.app.actor import machine
from vgpumgr.app.ticket_password import PasswordHalf
from vgpumgr.engine.consoles.connection_broker import ConnectionBroker
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.engine.controller.cycle_threads import ThreadCycleRunner
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.pools import session_activity
from vgpumgr.hosts.deadlines import DEADLINES
from vgpumgr.model.actor import carried
from vgpumgr.model.console_ticket import ConsoleProxyState
from vgpumgr.model.errors import DeadlineExceeded, HostUnreachable, LedgerError
from vgpumgr.model.ports import ConsoleProxy, Stream

# sock_diag(7): one socket is asked for by its two addresses.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 20, 1
_ESTABLISHED = 1
_NO_COOKIE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_ASK = struct.Struct("=BBBBI")
_PORTS = struct.Struct(">HH")
_WHOLE = struct.Struct("=III")
_UID_INODE = struct.Struct("=II")
_ID_AT, _UID_AT = _HEADER.size + 4, _HEADER.size + 64
_TIMEOUT_S = 5.0


def peer_uid(connection: socket.socket) -> int | None:
    """The uid that made the other end, IPv4 or IPv6; None where that is no live socket here.

    A socket that was closed already belongs to nobody, though the kernel may say root. OSError
    where the kernel was not to be asked.
    """
    theirs, ours = connection.getpeername(), connection.getsockname()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_TIMEOUT_S)
        kernel.send(_question(connection.family, theirs, ours))
        return _answered(kernel.recv(1 << 16), _PORTS.pack(theirs[1], ours[1]))


def _question(family: int, theirs: tuple[str, int], ours: tuple[str, int]) -> bytes:
    """``inet_diag_req_v2`` for the other end: its own address is the source."""
    addresses = (socket.inet_pton(family, each[0]).ljust(16, b"\0") for each in (theirs, ours))
    identity = _PORTS.pack(theirs[1], ours[1]) + b"".join(addresses)
    asked = _ASK.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _ESTABLISHED) + identity
    asked += _WHOLE.pack(0, _NO_COOKIE, _NO_COOKIE)
    size = _HEADER.size + len(asked)
    return _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + asked


def _answered(answer: bytes, ports: bytes) -> int | None:
    """The uid in an ``inet_diag_msg`` about an established socket that a process still has."""
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY or len(answer) < _UID_AT + _UID_INODE.size:
        return None  # NLMSG_ERROR: no such socket
    state, found = answer[_HEADER.size + 1], answer[_ID_AT : _ID_AT + _PORTS.size]
    uid, inode = _UID_INODE.unpack_from(answer, _UID_AT)
    return int(uid) if state == _ESTABLISHED and found == ports and inode else None


# So many wrong passwords close a door; so many viewers may be at it at once, each for so long (its
# user types the password meanwhile).
TRIES = 4
AT_ONCE = 4
ADMIT_S = 60.0
_BACKLOG = 64
_ROOT = 0
_ACCEPT_AGAIN_S = 0.1
_PIECE = 64 << 10


class LoopbackProxies:
    """Fulfils ``ports.Doors``. ``timeout_s`` is how long a console's handshake may take."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def open(self, console: Stream, key: str, uids: Collection[int] = ()) -> ConsoleProxy:
        """A door on 127.0.0.1, at a port that is free; without one the console is closed.

        Viewers are the programs of ``uids`` (none: of our own user) and of root, and no others.
        """
        try:
            return self._open(console, key, frozenset({_ROOT, *(uids or (os.geteuid(),))}))
        except BaseException:
            console.close()
            raise

    def _open(self, console: Stream, key: str, allowed: frozenset[int]) -> ConsoleProxy:
        half = PasswordHalf()
        password = half.password(key)
        with DEADLINES.within(self._timeout_s, console.close) as deadline:
            try:
                vnc_handshake.greet(console)
            except OSError as error:
                kind = DeadlineExceeded if deadline.fired else HostUnreachable
                raise kind("the console does not answer", why=str(error)) from error
        return LoopbackProxy(console, password, half.public, allowed)


class LoopbackProxy:
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

    def look(self) -> ConsoleProxyState:
        """How it stands."""
        with self._lock:
            return ConsoleProxyState(
                self._joined is not None, self._sent, self._ended, self._strangers
            )

    def close(self) -> None:
        """Let nobody in any more, and part who is joined."""
        self._end("it was closed")

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                viewer, _ = self._listener.accept()
            except OSError:  # it is the end, or no file can be opened now
                self._over.wait(_ACCEPT_AGAIN_S)
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
            knows = vnc_handshake.admit(viewer, self._password)
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
    """The user id of the program at the other end; None where the kernel does not say."""
    try:
        return peer_uid(viewer)
    except OSError:
        return None


def _wake(sock: socket.socket) -> None:
    """Shut the socket down: a thread that waits on it finds its end."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _shut(sock: socket.socket) -> None:
    """Wake whoever waits on it, then close it."""
    _wake(sock)
    sock.close()


# How long a round waits for an answer, a failed one for the next, and the end for the last.
_BEAT_S, _AGAIN_S, _END_S = 0.5, 5.0, 10.0
# Hosts that are dialled at once.
_WORKERS = 16


@contextmanager
def ticket_service(
    context: EngineContext, *, open_s: float, timeout_s: float, emit: Emit
) -> Iterator[None]:
    """Tickets are given while the block lasts; at its end all connections are parted.

    ``open_s`` is how long one waits for its viewer, ``timeout_s`` how long a handshake may take.
    """
    turns: ThreadCycleRunner[ConsoleProxy] = ThreadCycleRunner(_WORKERS, context.clock)
    doors = LoopbackProxies(timeout_s)
    desk = ConnectionBroker(
        context,
        machine(),
        doors,
        turns,
        open_s=open_s,
        emit=emit,
        used=lambda ticket: session_activity.heartbeat(context, ticket.vm, ticket.user),
        left=lambda ticket: session_activity.viewer_left(context, ticket.vm, ticket.user),
    )
    ending = threading.Event()
    thread = threading.Thread(
        target=carried(_run_tickets),
        args=(desk, ending, emit),
        name="vgpumgr-tickets",
        daemon=True,
    )
    with closing(context.ledger.hear(turns.wake)):
        thread.start()
        try:
            yield
        finally:
            ending.set()
            turns.wake()
            thread.join(_END_S)


def _run_tickets(desk: ConnectionBroker, ending: threading.Event, emit: Emit) -> None:
    while not ending.is_set():
        try:
            desk.round(_BEAT_S)
        except LedgerError:
            ending.wait(_AGAIN_S)  # told by who else works on it
        except Exception as defect:
            text = f"tickets: {type(defect).__name__}: {defect}"
            emit(ControllerEvent(kind=EventKind.TURN_FAILED, text=text))
            ending.wait(_AGAIN_S)
    with suppress(LedgerError):  # the next serve says so
        desk.close()
