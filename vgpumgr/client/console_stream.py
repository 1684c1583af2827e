"""A console at a server: the websocket of the API as a stream of bytes."""

from __future__ import annotations

import json
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import connect, unix_connect

from vgpumgr.endpoints.consoles import PROTOCOL
from vgpumgr.model.errors import HostUnreachable, UsageError, VgpumgrError, error_from

if TYPE_CHECKING:
    from vgpumgr.client.api_client import ServerAddress

OPEN_S = 60.0
_PING_S = 20.0
_CLOSE_S = 2.0
_MAX_MESSAGE = 4 << 20


class ConsoleStream:
    """Fulfils ``ports.Stream``. ``ended`` is why the server closed it, as far as it said."""

    def __init__(self, address: ServerAddress, path: str, protocol: str) -> None:
        """Connect, by showing the ticket in ``protocol``; raises why the server refuses."""
        self.ended = ""
        self._rest = b""
        self._closing = threading.Lock()
        try:
            self._websocket = _connected(address, path, protocol)
        except InvalidStatus as error:
            raise _refused(address, bytes(error.response.body or b"")) from error
        except InvalidHandshake as error:
            raise UsageError(f"{address} opens no consoles", why=str(error)) from error
        except (OSError, TimeoutError) as error:
            raise HostUnreachable(f"{address} cannot be reached", why=str(error)) from error

    def recv(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        if not self._rest:
            try:
                self._rest = self._websocket.recv(decode=False)
            except ConnectionClosed as error:
                self.ended = error.rcvd.reason if error.rcvd is not None else ""
                return b""
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def sendall(self, data: bytes) -> None:
        """All bytes."""
        try:
            self._websocket.send(data)
        except ConnectionClosed as error:
            raise OSError(str(error)) from error

    def close(self) -> None:
        """Leave; a second time does nothing."""
        with self._closing, suppress(OSError, ConnectionClosed):
            self._websocket.close()


def _connected(address: ServerAddress, path: str, protocol: str) -> Any:
    named: dict[str, Any] = {
        "subprotocols": [PROTOCOL, protocol],
        "compression": None,
        "proxy": None,
        "open_timeout": OPEN_S,
        "close_timeout": _CLOSE_S,
        "ping_interval": _PING_S,
        "ping_timeout": _PING_S,
        "max_size": _MAX_MESSAGE,
    }
    if address.token:
        named["additional_headers"] = {"Authorization": f"Bearer {address.token}"}
    if address.path:
        made = unix_connect(address.path, f"ws://vgpumgr{path}", **named)
    else:
        host = f"[{address.host}]" if ":" in address.host else address.host
        if address.tls:
            named["ssl"] = ssl.create_default_context(cafile=address.ca)
        scheme = "wss" if address.tls else "ws"
        made = connect(f"{scheme}://{host}:{address.port}{path}", **named)
    return made.__enter__()


def _refused(address: ServerAddress, body: bytes) -> VgpumgrError:
    try:
        return error_from(json.loads(body))
    except (ValueError, KeyError, TypeError):
        return UsageError(
            f"{address} opens no consoles", next="is it the address of `vgpumgr api`?"
        )
