"""HTTP to an identity provider: HTTPS alone, no redirects, bounded in time and size, JSON back."""

from __future__ import annotations

import io
import ipaddress
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

from vgpumgr.model.errors import HostUnreachable, LoginRefused

TIMEOUT_S = 10.0
MAX_BYTES = 256 * 1024
_CHUNK = 8192

Answer = tuple[int, dict[str, Any]]
"""The status, and the JSON object that came with it."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any,
        newurl: str,
    ) -> None:  # fmt: skip
        """A provider that sends us elsewhere is not asked there: that may be any address."""


class _DeadlineSocket:
    """A socket on which every word has to be said until one moment: a server that says a byte in
    time, again and again, is not waited for longer.
    """

    def __init__(self, wrapped: socket.socket, until: float) -> None:
        self._socket = wrapped
        self._until = until

    def sendall(self, data: bytes) -> None:
        self._hurry()
        self._socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_HurriedReads(self._socket, self._hurry))

    def close(self) -> None:
        self._socket.close()

    def _hurry(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("it took too long")
        self._socket.settimeout(left)


class _HurriedReads(io.RawIOBase):
    def __init__(self, wrapped: socket.socket, hurry: Callable[[], None]) -> None:
        self._reads = wrapped.makefile("rb", buffering=0)
        self._hurry = hurry

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._hurry()
        return self._reads.readinto(buffer)

    def close(self) -> None:
        self._reads.close()
        super().close()


class _HurriedHttp(HTTPConnection):
    """HTTP whose time limit is that of the whole request."""

    def connect(self) -> None:
        until = time.monotonic() + float(self.timeout or TIMEOUT_S)
        super().connect()
        self.sock = _DeadlineSocket(self.sock, until)


class _HurriedHttps(HTTPSConnection):
    """HTTPS whose time limit is that of the whole request."""

    def connect(self) -> None:
        until = time.monotonic() + float(self.timeout or TIMEOUT_S)
        super().connect()
        self.sock = _DeadlineSocket(self.sock, until)


class _OpensHttp(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_HurriedHttp, req)


class _OpensHttps(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_HurriedHttps, req)


def checked_url(url: object, what: str) -> str:
    """The URL, if it is one of HTTPS, or of HTTP to this machine; LoginRefused otherwise."""
    parts = urlsplit(url) if isinstance(url, str) else None
    try:
        safe = parts is not None and (parts.scheme == "https" or _is_loopback(parts.hostname))
        safe = safe and parts is not None and parts.scheme in {"https", "http"}
        if safe and parts is not None and parts.hostname and parts.username is None:
            return str(url)
    except ValueError:
        pass
    raise LoginRefused(f"the {what} is not an https address", why=f"it is {url!r:.120}")


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


class OidcHttp:
    """Requests to one provider; a request takes ``timeout_s`` seconds at most."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(_NoRedirects(), _OpensHttp(), _OpensHttps())

    def get(self, url: str, what: str, token: str = "") -> dict[str, Any]:
        """The JSON object at a URL, shown a bearer ``token`` where one is given; LoginRefused
        where there is none.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        where = checked_url(url, what)
        status, found = self._ask(urllib.request.Request(where, headers=headers))  # noqa: S310
        if status != 200:
            raise _refused(what, f"HTTP {status}")
        return found

    def post(
        self, url: str, what: str, form: Mapping[str, str], headers: Mapping[str, str]
    ) -> Answer:
        """The answer to a form, which may be an error of the protocol; HostUnreachable for none."""
        body = urlencode(form).encode()
        where = checked_url(url, what)
        asked = urllib.request.Request(where, data=body, headers=dict(headers))  # noqa: S310
        return self._ask(asked)

    def _ask(self, request: urllib.request.Request) -> Answer:
        request.add_header("Accept", "application/json")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return response.status, _json(_read(response))
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _json_or_none(error)
        except TimeoutError as error:
            raise _refused("answer", "it took too long") from error
        except (OSError, HTTPException) as error:
            raise HostUnreachable(
                "the identity provider cannot be reached",
                why=f"{request.host}: {getattr(error, 'reason', None) or error}",
                next="try again in a while",
            ) from error


def _read(response: HTTPResponse | urllib.error.HTTPError) -> bytes:
    found = bytearray()
    reader = getattr(response, "read1", None) or response.read
    while chunk := reader(_CHUNK):
        found += chunk
        if len(found) > MAX_BYTES:
            raise _refused("answer", f"it is larger than {MAX_BYTES >> 10} KiB")
    return bytes(found)


def _json(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused("answer", "it is not JSON") from error
    if not isinstance(found, dict):
        raise _refused("answer", "it is not a JSON object")
    return found


def _json_or_none(error: urllib.error.HTTPError) -> dict[str, Any]:
    try:
        return _json(_read(error))
    except (LoginRefused, OSError, HTTPException):
        return {}


def _refused(what: str, why: str) -> LoginRefused:
    return LoginRefused(
        "the identity provider does not answer as it should", why=f"{what}: {why}",
        next="vgpumgr auth test",
    )  # fmt: skip
