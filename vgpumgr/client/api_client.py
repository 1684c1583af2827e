"""Endpoints called over HTTP: the same answers and errors as in one's own process."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from vgpumgr.endpoints.answers import from_json
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result
from vgpumgr.endpoints.uploads import SHOW_UPLOAD, UploadItem
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import HostUnreachable, OutcomeUnknown, UsageError, error_from

if TYPE_CHECKING:
    from vgpumgr.client.console_stream import ConsoleStream

P = TypeVar("P")
A = TypeVar("A")

CONNECT_S = 10.0
ANSWER_S = 900.0
"""How long an answer may take: probing and planning a large fleet is waited for."""
AWAY_S, RETRY_S = 60.0, 1.0
"""How long a server may be away in the midst of an operation, and how often it is tried."""
WAIT = "30s"
MAX_ANSWER = 256 << 20
UNIX = "unix:"
_CUTS = (OSError, EOFError, http.client.HTTPException)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a server is: a unix socket's path, or a host and port; with ``tls`` unless on loopback.
    ``ca`` is the file of certificates that sign its own.
    """

    path: str = ""
    host: str = ""
    port: int = 0
    tls: bool = True
    ca: Path | None = None
    token: str = ""

    @classmethod
    def parse(cls, text: str, *, ca: Path | None = None, token: str = "") -> ServerAddress:
        """``unix:PATH`` or ``https://HOST[:PORT]``; UsageError for anything else."""
        if text.startswith(UNIX) and text != UNIX:
            return cls(path=text.removeprefix(UNIX), token=token)
        try:
            url = urlsplit(text)
            port = url.port
        except ValueError as error:
            raise _no_server(text) from error
        plain = url.scheme == "http" and url.hostname in {"127.0.0.1", "::1", "localhost"}
        if not url.hostname or not (url.scheme == "https" or plain) or url.path not in {"", "/"}:
            raise _no_server(text)
        return cls(host=url.hostname, port=port or 8443, tls=not plain, ca=ca, token=token)

    def __str__(self) -> str:
        """As it was written."""
        if self.path:
            return f"{UNIX}{self.path}"
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"


def _no_server(text: str) -> UsageError:
    return UsageError(
        f"{text} is no server",
        why="it is unix:PATH, or https://HOST:PORT",
        next="vgpumgr --server unix:/run/vgpumgr/api.sock vm list",
    )


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("vgpumgr", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the path."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class ApiClient:
    """One server. A connection is kept between calls; not for several threads."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._connection: http.client.HTTPConnection | None = None
        self._reached = False

    def call(self, endpoint: Endpoint[P, A], asked: P) -> Result[A]:
        """The answer of an endpoint, without waiting for an operation's end."""
        status, whole = self._ask(endpoint, asked)
        if status == http.client.ACCEPTED:
            return self._end_of(endpoint, whole, lambda _: None)
        return from_json(endpoint, whole)

    def carry_out(
        self, endpoint: Endpoint[P, A], asked: P, watch: Callable[[dict[str, Any]], None]
    ) -> Result[A]:
        """The result of a change once it has ended; ``watch`` sees its operation meanwhile."""
        status, whole = self._ask(endpoint, asked)
        if status == http.client.ACCEPTED:
            return self._end_of(endpoint, whole, watch)
        return from_json(endpoint, whole)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer of a route that is no endpoint."""
        return self._request("POST", path, body or {})[1]

    def append(self, upload: str, offset: int, length: int, pieces: Iterable[bytes]) -> UploadItem:
        """Append ``length`` bytes to an upload that ends at ``offset``; how far it has come then.
        Tried once: where it was cut, the upload itself says that.
        """
        headers = self._headers("PATCH", None) | {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(length),
            "Upload-Offset": str(offset),
        }
        connection = self._connected()
        try:
            connection.putrequest("PATCH", f"/v1/uploads/{upload}", skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have answered before
                for piece in pieces:
                    connection.send(piece)
            answer = connection.getresponse()
            whole = self._checked(answer.status, _read(answer))
        except _CUTS as error:
            self.close()
            raise self._cut("PATCH", error) from error
        except BaseException:
            self.close()  # the rest of the body was not sent
            raise
        return from_json(SHOW_UPLOAD, whole).answer

    def console(self, item: Mapping[str, Any]) -> ConsoleStream:
        """The connection that a ticket is for, as :class:`ConsoleItem` tells it."""
        from vgpumgr.client.console_stream import ConsoleStream

        return ConsoleStream(self._address, item["path"], item["protocol"])

    def _end_of(
        self,
        endpoint: Endpoint[P, A],
        operation: dict[str, Any],
        watch: Callable[[dict[str, Any]], None],
    ) -> Result[A]:
        path = f"/v1/operations/{quote(str(operation['name']), safe='')}?wait={WAIT}"
        watch(operation)
        while not operation["done"]:
            try:
                operation = self._request("GET", path, None)[1]
            except HostUnreachable as error:
                name = str(operation["name"])[:8]
                error.next = f"it goes on there; later: vgpumgr operation show {name}"
                raise
            watch(operation)
        if "response" in operation:
            return from_json(endpoint, operation["response"])
        if "error" in operation:
            raise error_from(operation["error"])
        raise OutcomeUnknown(
            "the server does not know any more what came of it",
            next=f"vgpumgr operation show {operation['name']}",
        )

    def _ask(self, endpoint: Endpoint[P, A], asked: P) -> tuple[int, dict[str, Any]]:
        plain: dict[str, Any] = to_plain(asked)
        path = "/v1" + endpoint.path
        for name in list(plain):
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", quote(str(plain.pop(name)), safe=""))
        if endpoint.method is HttpMethod.GET:
            query = urlencode(_query(plain), doseq=True)
            return self._request("GET", f"{path}?{query}" if query else path, None)
        return self._request(endpoint.method, path, plain)

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, dict[str, Any]]:
        """The answer. A server that goes away meanwhile is waited for; a change is asked for again
        under its key, and is carried out once.
        """
        headers = self._headers(method, body)
        until = time.monotonic() + AWAY_S
        while True:
            try:
                status, data = self._request_once(method, path, body, headers)
            except (HostUnreachable, OutcomeUnknown):
                if not self._reached or time.monotonic() > until:
                    raise
                time.sleep(RETRY_S)
            else:  # what the server says of a host that is away is its answer
                return status, self._checked(status, data)

    def _headers(self, method: str, body: Mapping[str, Any] | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        if self._address.token:
            headers["Authorization"] = f"Bearer {self._address.token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
            headers["Idempotency-Key"] = str(uuid.uuid4())
        if method in {HttpMethod.PUT, HttpMethod.PATCH, HttpMethod.DELETE}:
            headers["If-Match"] = "*"  # a command says itself what it takes things for
        return headers

    def _request_once(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        connection = self._connected()
        self._reached = True
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, dict(headers))
            answer = connection.getresponse()
            data = _read(answer)
        except _CUTS as error:
            self.close()
            raise self._cut(method, error) from error
        return answer.status, data

    def _checked(self, status: int, data: bytes) -> dict[str, Any]:
        try:
            whole = json.loads(data) if len(data) <= MAX_ANSWER else None
        except ValueError:
            whole = None
        if not isinstance(whole, dict):
            raise UsageError(
                f"{self._address} does not answer as a vgpumgr does",
                why=f"HTTP status {status}",
                next="is it the address of `vgpumgr api`?",
            )
        if status >= http.client.BAD_REQUEST:
            raise error_from(whole)
        return whole

    def _cut(self, method: str, error: Exception) -> OutcomeUnknown | HostUnreachable:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if method == HttpMethod.GET:
            return HostUnreachable(f"{self._address} did not answer", why=why)
        return OutcomeUnknown(
            f"{self._address} did not answer",
            why=f"{why}: it may have been done",
            next="vgpumgr operation list",
        )

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            connection = _connection(self._address)
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                raise HostUnreachable(
                    f"{self._address} cannot be reached",
                    why=getattr(error, "strerror", None) or str(error),
                    next="is `vgpumgr api` running there?",
                ) from error
            connection.sock.settimeout(ANSWER_S)
            self._connection = connection
        return self._connection

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connection(address: ServerAddress) -> http.client.HTTPConnection:
    if address.path:
        return _UnixConnection(address.path, CONNECT_S)
    if not address.tls:
        return http.client.HTTPConnection(address.host, address.port, timeout=CONNECT_S)
    context = ssl.create_default_context(cafile=address.ca)
    return http.client.HTTPSConnection(
        address.host, address.port, timeout=CONNECT_S, context=context
    )


def _read(answer: http.client.HTTPResponse) -> bytes:
    """The body, up to a byte over the limit."""
    data = answer.read(MAX_ANSWER + 1)
    return _unpacked(data) if answer.headers.get("Content-Encoding") == "gzip" else data


def _unpacked(data: bytes) -> bytes:
    """What gzip packed, up to a byte over the limit."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(MAX_ANSWER + 1)


def _query(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that are given, as a query has them."""
    words = {True: "true", False: "false"}
    return {
        name: words[value] if isinstance(value, bool) else value
        for name, value in plain.items()
        if value is not None and value != [] and value is not False
    }
