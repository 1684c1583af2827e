"""A connection that became a websocket: its peer is known, and it is kept awake by pings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from vgpumgr.api.authentication import PEER, Peer

PING_S = 20.0
"""So often a viewer is asked whether it is there, and so long it may take to say so."""
MOST_MESSAGE = 1 << 20
"""The longest message of a viewer, in bytes: texts of its clipboard are the longest."""


NOBODY = Peer()


def _nobody() -> None:
    """No listener."""


class ConsoleWebsocket(WebSocketsSansIOProtocol):
    """``gone`` is called once it has ended."""

    def __init__(
        self, *args: Any, peer: Peer = NOBODY, gone: Callable[[], None] = _nobody, **named: Any
    ) -> None:
        super().__init__(*args, **named)
        self._gone = gone
        app = self.app

        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, PEER: peer}, receive, send)

        self.app = with_peer

    async def send(self, message: Any) -> None:
        """As uvicorn's, which takes a refusal for an application that forgot to answer."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        super().connection_lost(exc)
        self._gone()
