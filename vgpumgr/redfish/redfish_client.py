"""One connection to a Redfish service: a session, a pinned certificate, deadlines and limits."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from vgpumgr.model.errors import (
    HostRefused,
    HostUnreachable,
    NotPermitted,
    OutcomeUnknown,
    UsageError,
)

ROOT = "/redfish/v1"
SESSIONS = f"{ROOT}/SessionService/Sessions"
MOST_BYTES = 1 << 20
_PIECE = 16 << 10
CALL_S = 10.0
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_NO_SESSIONS = frozenset({404, 405, 501})

Resource = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RedfishLogin:
    """Where a service is (``https://bmc.example``, with a port or without), and who asks it.

    ``certificate`` is the SHA-256 of its certificate in hexadecimal: it is then the one that is
    trusted; without it the system's authorities decide, and the name must match.
    """

    url: str
    user: str = ""
    password: str = ""
    certificate: str = ""


def _place(url: str) -> tuple[bool, str, int | None]:
    """Is it asked over TLS, its host, and its port; UsageError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is no URL", why=str(error)) from error
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise UsageError(f"{url!r} is no URL of a Redfish service", why="wanted: https://HOST")
    return parts.scheme == "https", parts.hostname, port


class RedfishRefused(HostRefused):
    """The service refused a call; ``status`` is HTTP's."""

    def __init__(self, message: str, *, why: str, status: int) -> None:
        super().__init__(message, why=why)
        self.status = status


class RedfishClient:
    """A context manager: the session ends with it. Raises UsageError for what is no URL,
    HostUnreachable where the service does
    not answer in time, NotPermitted where it refuses the login or has another certificate,
    HostRefused for what it refuses, OutcomeUnknown for an answer that is none.
    """

    def __init__(self, login: RedfishLogin, *, call_s: float = CALL_S) -> None:
        self._login = login
        self._secure, self._host, self._port = _place(login.url)
        self._name = self._host if self._port is None else f"{self._host}:{self._port}"
        self._call_s = call_s
        self._token = ""
        self._session = ""

    def __enter__(self) -> Self:
        if self._login.user:
            if not self._secure and self._host not in _LOOPBACK:
                raise NotPermitted(
                    f"{self._name} is asked without TLS: the password is not sent",
                    next="write https:// in its URL",
                )
            self._log_in()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session:
            with suppress(HostUnreachable, HostRefused, NotPermitted, OutcomeUnknown):
                self._call("DELETE", self._session)

    def get(self, path: str) -> Resource:
        """A resource."""
        return self._call("GET", path)[0]

    def post(self, path: str, body: Resource) -> None:
        """An action."""
        self._call("POST", path, body)

    def _log_in(self) -> None:
        who = {"UserName": self._login.user, "Password": self._login.password}
        try:
            _, headers = self._call("POST", SESSIONS, who)
        except RedfishRefused as error:
            if error.status in _NO_SESSIONS:
                raise NotPermitted(
                    f"{self._name} has no Redfish sessions", next="turn its SessionService on"
                ) from error
            raise
        self._token = headers.get("x-auth-token", "")
        if not self._token or len(self._token) > 4096:
            raise OutcomeUnknown(f"{self._name} answered a login without a token")
        place = urlsplit(headers.get("location", "")).path
        self._session = place if place.startswith(f"{ROOT}/") else ""

    def _call(
        self, method: str, path: str, body: Resource | None = None
    ) -> tuple[Resource, Mapping[str, str]]:
        if not path.startswith(f"{ROOT}/") and path != ROOT:
            raise OutcomeUnknown(f"{self._name} names {path[:80]!r}, which is no resource of it")
        until = time.monotonic() + self._call_s
        connection = self._connection()
        try:
            return self._asked(connection, until, method, path, body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = str(error) or type(error).__name__
            raise HostUnreachable(
                f"{self._name} does not answer", why=why[:200], next="is it on, and its URL right?"
            ) from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._call_s)
        context = ssl.create_default_context()
        if self._login.certificate:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # the pin decides, before anything is sent
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._call_s, context=context
        )

    def _asked(
        self,
        connection: http.client.HTTPConnection,
        until: float,
        method: str,
        path: str,
        body: Resource | None,
    ) -> tuple[Resource, Mapping[str, str]]:
        connection.connect()
        self._check_certificate(connection)
        cut = threading.Timer(max(0.0, until - time.monotonic()), _cut, [connection])
        cut.daemon = True
        cut.start()
        try:
            return self._told(connection, until, method, path, body)
        finally:
            cut.cancel()

    def _told(
        self,
        connection: http.client.HTTPConnection,
        until: float,
        method: str,
        path: str,
        body: Resource | None,
    ) -> tuple[Resource, Mapping[str, str]]:
        headers = {"Accept": "application/json", "OData-Version": "4.0"}
        if self._token:
            headers["X-Auth-Token"] = self._token
        sent = None if body is None else json.dumps(body).encode()
        if sent is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
        data = _read(connection, answer, until)
        self._require_done(answer.status, method, path)
        told = {name.lower(): value for name, value in answer.getheaders()}
        return self._parsed(data, path) if data.strip() else {}, told

    def _check_certificate(self, connection: http.client.HTTPConnection) -> None:
        wanted = self._login.certificate.lower().removeprefix("sha256:").replace(":", "")
        if not wanted or not isinstance(connection.sock, ssl.SSLSocket):
            return
        found = hashlib.sha256(connection.sock.getpeercert(binary_form=True) or b"").hexdigest()
        if not hmac.compare_digest(found, wanted):
            raise NotPermitted(
                f"{self._name} has another certificate than the one that is trusted",
                why=f"its SHA-256 is {found}",
                next="if it was renewed, write down this one",
            )

    def _require_done(self, status: int, method: str, path: str) -> None:
        if 200 <= status < 300:
            return
        message = f"{self._name} refused {method} {path[:120]}"
        if status in (401, 403):
            raise NotPermitted(message, why=f"HTTP {status}", next="its user and password")
        raise RedfishRefused(message, why=f"HTTP {status}", status=status)

    def _parsed(self, data: bytes, path: str) -> Resource:
        try:
            found = json.loads(data, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise OutcomeUnknown(
                f"{self._name} answered {path[:120]} with what is no JSON", why=str(error)[:120]
            ) from error
        if not isinstance(found, dict):
            raise OutcomeUnknown(f"{self._name} answered {path[:120]} with no object")
        return found


def _read(
    connection: http.client.HTTPConnection, answer: http.client.HTTPResponse, until: float
) -> bytes:
    """The whole body, within the deadline and the limit; OSError beyond either."""
    found = bytearray()
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("it answers too slowly")
        if connection.sock is not None:
            connection.sock.settimeout(left)
        piece = answer.read1(_PIECE)
        if not piece:
            return bytes(found)
        found += piece
        if len(found) > MOST_BYTES:
            raise OSError(f"its answer is longer than {MOST_BYTES} bytes")


def _cut(connection: http.client.HTTPConnection) -> None:
    """End a call that drips: what waits for it fails."""
    with suppress(OSError):
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")
