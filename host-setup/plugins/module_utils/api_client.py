# Copyright The vgpumgr authors
# SPDX-License-Identifier: Apache-2.0
"""A client of vgpumgr's HTTP API for Ansible's modules, from the standard library alone."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from urllib.parse import quote, urlsplit

UNIX = "unix:"
DEFAULT_PORT = 8443
CONNECT_S = 10.0
ANSWER_S = 900.0
"""How long one answer may take: planning a large fleet is waited for."""
WAIT_S = 30
"""How long a request asks the server to wait for an operation's end."""
MAX_ANSWER = 256 << 20
PAUSES_S = (1.0, 2.0)
"""Before a request whose connection was cut is sent again."""


class ApiProblem(Exception):
    """What the API, or the way to it, said no with.

    ``code``, ``message``, ``why`` and ``next`` are those of the problem document. ``settled``: it
    is known what came of the request; None where none was sent.
    """

    def __init__(self, code, message, why="", next="", settled=True, operation=""):
        super().__init__(message)
        self.code = code
        self.message = message
        self.why = why
        self.next = next
        self.settled = settled
        self.operation = operation

    @classmethod
    def of(cls, document):
        """The one of a problem document, or of the ``error`` of an answer."""
        told = {key: str(document.get(key) or "") for key in ("code", "message", "why", "next")}
        return cls(
            told["code"] or "failed", told["message"] or "it failed", told["why"], told["next"]
        )


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout):
        super().__init__("vgpumgr", timeout=timeout)
        self._path = path

    def connect(self):
        """Connect to the path."""
        found = socket.socket(socket.AF_UNIX)
        try:
            found.settimeout(self.timeout)
            found.connect(self._path)
        except OSError:
            found.close()
            raise
        self.sock = found


class ApiClient:
    """One server, ``https://HOST[:PORT]`` or ``unix:PATH`` (plain HTTP on the loopback alone).

    ``ca`` is the file of the certificates that sign the server's, empty for the machine's own.
    """

    def __init__(self, server, ca="", token=""):
        self._server = server
        self._token = _in_header("token", token.strip())
        self._ca = ca or None
        self._path, self._host, self._port, self._tls = _parsed(server)

    def get(self, path):
        """The answer of a read."""
        return self.ask("GET", path)[1]

    def post(self, path, body):
        """The answer of a request that changes nothing."""
        return self.ask("POST", path, body)[1]

    def ask(self, method, path, body=None, key=None):
        """Status and answer of one request; a change has a key. It is sent again where the
        connection was cut.
        """
        cut = None
        for pause_s in (0.0, *PAUSES_S):
            time.sleep(pause_s)
            connection, sent = self._connection(), cut is not None
            try:
                self._connect(connection)
                sent = True
                return self._answer(connection, method, path, body, key)
            except (OSError, http.client.HTTPException) as error:
                if not sent:
                    raise self._unreached(error) from error
                cut = error
            finally:
                connection.close()
        raise self._unknown(cut, changes=bool(key))

    def carry_out(self, path, body, key, wait_s):
        """Begin a change; its operation's id (empty for none), and its answer, which is None where
        it has not ended. With ``wait_s`` it is waited for so long.
        """
        until = time.monotonic() + wait_s
        first = f"?wait={min(WAIT_S, wait_s)}s" if wait_s else ""
        status, whole = self.ask("POST", path + first, body, key)
        if status != http.client.ACCEPTED:
            return whole.get("operation") or "", whole
        operation = str(whole["name"])
        if not wait_s:
            return operation, None
        while not whole["done"]:
            left_s = int(until - time.monotonic())
            if left_s <= 0:
                raise _still_running(operation, wait_s)
            whole = self._awaited(operation, min(WAIT_S, left_s))
        return operation, _response(operation, whole)

    def _awaited(self, operation, wait_s):
        """The operation, once it has ended or the time is over."""
        try:
            return self.get(f"/operations/{quote(operation, safe='')}?wait={wait_s}s")
        except ApiProblem as problem:
            problem.settled, problem.operation = False, operation
            raise

    @staticmethod
    def _connect(connection):
        connection.connect()
        connection.sock.settimeout(ANSWER_S)

    def _unreached(self, error):
        """Nothing was sent."""
        return ApiProblem(
            "host.unreachable",
            f"{self._server} cannot be reached",
            getattr(error, "strerror", None) or str(error),
            "is `vgpumgr api` running there, and is ca the file that signs its certificate?",
            settled=None,
        )

    def _connection(self):
        if self._path:
            return UnixConnection(self._path, CONNECT_S)
        if not self._tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_S)
        try:
            context = ssl.create_default_context(cafile=self._ca)
        except OSError as error:
            raise ApiProblem("usage", f"ca {self._ca} cannot be read", str(error)) from error
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=CONNECT_S, context=context
        )

    def _answer(self, connection, method, path, body, key):
        headers = {"Accept": "application/json"}
        if method in ("PUT", "PATCH", "DELETE"):
            headers["If-Match"] = "*"  # the task's plan was made just before
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        if key:
            headers["Idempotency-Key"] = _in_header("idempotency_key", key)
        text = None
        if body is not None:
            text, headers["Content-Type"] = json.dumps(body), "application/json"
        connection.request(method, "/v1" + path, text, headers)
        answer = connection.getresponse()
        return answer.status, self._checked(answer.status, answer.read(MAX_ANSWER + 1))

    def _checked(self, status, data):
        try:
            whole = json.loads(data) if len(data) <= MAX_ANSWER else None
        except ValueError:
            whole = None
        if not isinstance(whole, dict):
            raise ApiProblem(
                "failed",
                f"{self._server} does not answer as a vgpumgr does",
                f"HTTP status {status}",
                "is it the address of `vgpumgr api`?",
            )
        if status >= http.client.BAD_REQUEST:
            raise ApiProblem.of(whole)
        return whole

    def _unknown(self, error, changes):
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if not changes:
            return ApiProblem("host.unreachable", f"{self._server} did not answer", why)
        return ApiProblem(
            "host.outcome-unknown",
            f"{self._server} did not answer",
            why + ": it may have been done",
            "the same task again: what was done is not done twice",
            settled=False,
        )


def _in_header(name, text):
    if text.isascii() and text.isprintable():
        return text
    raise ApiProblem("usage", f"{name} has characters that cannot be sent", settled=None)


def _parsed(server):
    """Path of the socket, host, port, and whether TLS is spoken."""
    if server.startswith(UNIX) and server != UNIX:
        return server[len(UNIX) :], "", 0, False
    try:
        url = urlsplit(server)
        host, port = url.hostname, url.port
    except ValueError:
        url, host, port = None, None, None
    plain = host in {"127.0.0.1", "::1", "localhost"} and url.scheme == "http"
    if not host or not (plain or url.scheme == "https") or url.path not in {"", "/"}:
        raise ApiProblem("usage", f"{server} is no server", "it is https://HOST:PORT, or unix:PATH")
    return "", host, port or DEFAULT_PORT, not plain


def _still_running(operation, wait_s):
    return ApiProblem(
        "deadline",
        f"operation {operation} has not ended after {wait_s} s",
        "it goes on",
        f"the same task again waits on; vgpumgr operation show {operation}",
        settled=False,
        operation=operation,
    )


def _response(operation, whole):
    if "response" in whole:
        return whole["response"]
    if "error" in whole:
        raise ApiProblem.of(whole["error"])
    raise ApiProblem(
        "host.outcome-unknown",
        f"the server does not know any more what came of operation {operation}",
        next=f"vgpumgr operation show {operation}",
        operation=operation,
    )
