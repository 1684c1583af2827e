"""Connections: who is at their other end, how many there are, and how long they may take.

A connection that has no request under way is idle. Where there are too many, one that has been idle
longest is let go; where none is idle, the new one is refused.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from functools import partial
from typing import Any

import h11
from starlette.status import (
    HTTP_400_BAD_REQUEST,
    HTTP_408_REQUEST_TIMEOUT,
    HTTP_503_SERVICE_UNAVAILABLE,
)
from uvicorn.protocols.http.h11_impl import H11Protocol

from vgpumgr.api.authentication import PEER, Peer
from vgpumgr.api.body_limit import is_upload
from vgpumgr.api.console_websocket import ConsoleWebsocket
from vgpumgr.api.problems import problem
from vgpumgr.model.errors import Conflict, DeadlineExceeded, Interrupted, UsageError, VgpumgrError

HEAD_S, BODY_S = 20.0, 60.0
"""How long a request's line with its headers, and then its body, may take to come."""
UPLOAD_BYTES = 1 << 20
"""The piece of an upload that may take as long as another body."""
LINGER_S = 10.0
"""How long the rest of a body is thrown away, once its request is answered."""
STUCK_S = 30.0
"""How long a client may take nothing of what is sent to it."""


class BusyServer(Conflict):
    """There are as many connections as the server takes."""

    code = "busy"


class OpenConnections:
    """The connections of one listener; at most ``most``. Where there are too many, the address that
    has most idle ones loses the oldest of them: one that opens thousands displaces its own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._idle: dict[str, dict[HttpConnection, None]] = {}
        """By address; in the order in which they became so."""

    def add(self, connection: HttpConnection) -> bool:
        """Count a new one, which is idle; False where there is no room for it."""
        self._count += 1
        if self._count > self._most:
            crowd = max(self._idle.values(), key=len, default=None)
            if crowd is None:
                return False
            oldest = next(iter(crowd))
            self.busy(oldest)
            oldest.refuse(_busy(), HTTP_503_SERVICE_UNAVAILABLE)
        self.idle(connection)
        return True

    def idle(self, connection: HttpConnection) -> None:
        """It has no request any more."""
        self.busy(connection)
        self._idle.setdefault(connection.address, {})[connection] = None

    def busy(self, connection: HttpConnection) -> None:
        """It has a request."""
        of_address = self._idle.get(connection.address, {})
        of_address.pop(connection, None)
        if not of_address:
            self._idle.pop(connection.address, None)

    def remove(self, connection: HttpConnection) -> None:
        """It has ended."""
        self._count -= 1
        self.busy(connection)


def _busy() -> VgpumgrError:
    return BusyServer(
        "the server has as many connections as it takes",
        next="end connections that are not needed, and try again in a while",
    )


class HttpConnection(H11Protocol):
    """HTTP whose requests know the other end of their connection."""

    def __init__(
        self, *args: Any, open_connections: OpenConnections, readers: bool = False, **named: Any
    ) -> None:
        super().__init__(*args, **named)
        self._open = open_connections
        self._readers = readers
        self._timer: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._awaited: object = None
        self._came = 0
        self.address = ""
        """Of its other end; empty for a unix socket."""

    def data_received(self, data: bytes) -> None:
        """Count what comes."""
        self._came += len(data)
        super().data_received(data)

    def connection_made(self, transport: Any) -> None:
        """Put the peer into the scope of every request of the connection."""
        super().connection_made(transport)
        app, peer = self.app, _peer(transport, self._readers)
        self._peer = peer
        self.address = self.client[0] if self.client else ""

        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, PEER: peer}, receive, send)

        self.app = with_peer
        if self._open.add(self):
            self._await("head", HEAD_S)
        else:
            self.refuse(_busy(), HTTP_503_SERVICE_UNAVAILABLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._open.remove(self)
        self._await(None, 0.0)
        self._flows()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take in what has come, and see what must come next."""
        if self.transport.is_closing():
            return
        super().handle_events()
        if self.transport.get_protocol() is not self:
            return  # it became a websocket
        if self.conn.their_state is h11.IDLE:
            self._await("head", HEAD_S)
        elif self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE:
            self._await("rest", LINGER_S)
        elif self.conn.their_state is h11.SEND_BODY:
            pieces = self._came // UPLOAD_BYTES if is_upload(self.cycle.scope) else 0
            self._await((self.cycle, pieces), BODY_S)
        else:
            self._await(None, 0.0)
        if self.conn.their_state is not h11.IDLE:
            self._open.busy(self)

    def _should_upgrade(self) -> bool:
        """Is it a websocket's request? One that lacks its key is answered as any other."""
        keyed = any(name == b"sec-websocket-key" for name, _ in self.headers)
        return keyed and super()._should_upgrade()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """It is a websocket from now on, and still one of the connections that are counted."""
        self._await(None, 0.0)
        self._open.busy(self)
        made: Any = partial(ConsoleWebsocket, peer=self._peer, gone=lambda: self._open.remove(self))
        self.ws_protocol_class = made
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """It is idle again; what is left of a body is thrown away for a while."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._await("rest", LINGER_S)
        elif self.cycle.response_complete:
            self._open.idle(self)
            self._await(None, 0.0)

    def pause_writing(self) -> None:
        """The client takes nothing: it has some time to go on."""
        super().pause_writing()
        self._stuck = self.loop.call_later(STUCK_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It goes on."""
        super().resume_writing()
        self._flows()

    def _flows(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def shutdown(self) -> None:
        """The server ends: an upload ends where it is, and is continued later."""
        if self.conn.their_state is h11.SEND_BODY and is_upload(self.cycle.scope):
            told = Interrupted(
                "the server ends",
                why="what came of the upload is kept",
                next="look how far it has come, and send the rest",
            )
            self.refuse(told, HTTP_503_SERVICE_UNAVAILABLE)
        else:
            super().shutdown()

    def _await(self, what: object, longest_s: float) -> None:
        """Something is to come within a time, however few bytes come."""
        if what is not None and what == self._awaited:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._awaited = what
        self._timer = None if what is None else self.loop.call_later(longest_s, self._late)

    def _late(self) -> None:
        told = DeadlineExceeded(
            "the request did not come in time",
            why=f"its headers may take {HEAD_S:.0f} s, its body {BODY_S:.0f} s",
        )
        self.refuse(told, HTTP_408_REQUEST_TIMEOUT)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or too much of it, is a problem like any other."""
        told = UsageError(msg, why="a request line and its headers are at most 64 KiB")
        self.refuse(told, HTTP_400_BAD_REQUEST)

    def refuse(self, error: VgpumgrError, status: int) -> None:
        """Answer with a problem where no answer has begun, and end the connection."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            answer = problem(error, status=status)
            headers = [*answer.raw_headers, (b"connection", b"close")]
            for event in (
                h11.Response(status_code=status, headers=headers, reason=b"Refused"),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def _peer(transport: Any, reader: bool) -> Peer:
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if tls is not None:
        return Peer(certificate=tls.getpeercert(binary_form=True))
    found = transport.get_extra_info("socket")
    if found is None or found.family != socket.AF_UNIX:
        return Peer(reader=reader)
    size = struct.calcsize("3i")
    told = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return Peer(uid=struct.unpack("3i", told)[1])
