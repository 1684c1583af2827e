"""A request to a receiver: to an address that was looked up once, in bounded time, no redirects.

Of the answer the status is read and no more; what follows its head is left.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any, cast

from vgpumgr import __version__
from vgpumgr.app.webhooks.receiver_address import ReceiverPlace, ReceiverRefused, ReceiverRules

TIMEOUT_S = 10.0
"""The longest that one attempt takes after the address is known."""
GONE = 410
"""The status of a receiver that takes nothing more, ever."""


class NotTaken(Exception):
    """A receiver did not take a message; the text says why, ``status`` is that of its answer."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


def post(
    rules: ReceiverRules,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    timeout_s: float = TIMEOUT_S,
) -> int:
    """Send it once; the status of success. NotTaken for every other end."""
    try:
        place = rules.place(url)
        address = rules.resolve(place)
        status = _Exchange(place, address, timeout_s).status(body, headers)
    except ReceiverRefused as error:
        raise NotTaken(f"{error.message}: {error.why}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise NotTaken(_words(error, timeout_s)) from error
    if 200 <= status < 300:
        return status
    said = ": redirects are not followed" if 300 <= status < 400 else ""
    raise NotTaken(f"HTTP {status}{said}", status)


def _words(error: Exception, timeout_s: float) -> str:
    match error:
        case TimeoutError():
            return f"no answer within {timeout_s:g} s"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not accepted: {error.verify_message}"
        case socket.gaierror():
            return f"its name leads nowhere: {error.strerror}"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
    return f"it answers no HTTP: {type(error).__name__}"


class _Exchange:
    """One request and the head of its answer."""

    def __init__(self, place: ReceiverPlace, address: str, timeout_s: float) -> None:
        self._place = place
        self._address = address
        self._until = time.monotonic() + timeout_s

    def left(self) -> float:
        found = self._until - time.monotonic()
        if found <= 0:
            raise TimeoutError
        return found

    def status(self, body: bytes, headers: Mapping[str, str]) -> int:
        place = self._place
        connection = HTTPConnection(place.host, place.port)
        connection.default_port = place.default_port
        with self._connected() as sock:
            connection.sock = cast("socket.socket", _BoundedSocket(sock, self))
            told = {
                "Content-Type": "application/json",
                "User-Agent": f"vgpumgr/{__version__}",
                "Connection": "close",
                **headers,
            }
            connection.request("POST", place.target, body, told)
            return connection.getresponse().status

    def _connected(self) -> socket.socket:
        sock = socket.create_connection((self._address, self._place.port), self.left())
        if not self._place.secure:
            return sock
        try:
            sock.settimeout(self.left())
            context = ssl.create_default_context()
            return context.wrap_socket(sock, server_hostname=self._place.host)
        except BaseException:
            sock.close()
            raise


class _BoundedSocket:
    """What HTTPConnection uses of a socket; every call ends when the exchange has to."""

    def __init__(self, sock: socket.socket, exchange: _Exchange) -> None:
        self._sock = sock
        self._exchange = exchange

    def sendall(self, data: Any) -> None:
        self._sock.settimeout(self._exchange.left())
        self._sock.sendall(data)

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(_BoundedReader(self._sock, self._exchange))

    def close(self) -> None:
        self._sock.close()


class _BoundedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, exchange: _Exchange) -> None:
        self._sock = sock
        self._exchange = exchange

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._exchange.left())
        return self._sock.recv_into(buffer)
