"""What clients do to a server: requests that are none, too long, too slow, and too many."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.apiserver import ApiServer
from vgpumgr.api.connections import BODY_S, HEAD_S, STUCK_S
from vgpumgr.model.history import AccessEvent
from vgpumgr.store.sql_ledger import SqlLedger

PATIENCE_S, MEMORY_KIB = 10.0, 48 << 10
HEAD = b"POST /v1/vms:stop HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
MALFORMED: dict[str, bytes] = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no version": b"GET /v1/vms\r\n\r\n",
    "another version": b"GET /v1/vms HTTP/9.9\r\nHost: x\r\n\r\n",
    "no host": b"GET /v1/vms HTTP/1.1\r\n\r\n",
    "a blank before a colon": b"GET /v1/vms HTTP/1.1\r\nHost : x\r\n\r\n",
    "a zero byte": b"GET /v1/\x00vms HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long line": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "many headers": b"GET /v1/vms HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 9000 + b"\r\n",
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "a length and chunks": HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "no chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "an unknown method": b"BREW /v1/vms HTTP/1.1\r\nHost: x\r\n\r\n",
    "an upgrade": b"GET /v1/vms/x HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\n"
    b"Upgrade: websocket\r\n\r\n",
    "a path that climbs": b"GET /v1/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path that is no text": b"GET /v1/vms/%ff%fe%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "another server's address": b"GET http://other/v1/vms HTTP/1.1\r\nHost: x\r\n\r\n",
}
HARMLESS = {"another version", "many headers"}
"""These may be answered as if they were good."""
BODIES: dict[str, bytes] = {
    "deep": b"[" * 200_000,
    "a long number": b'{"names": ["a"], "timeout_s": ' + b"9" * 100_000 + b"}",
    "no number": b'{"names": ["a"], "timeout_s": NaN}',
    "half a character": b'{"names": ["\\ud800"]}',
    "no text": b"\xff\xfe\x00\x01",
    "half": b'{"names": ["a"',
    "nothing": b"",
    "too many": b'{"names": [' + b'"a",' * 20_000 + b'"a"]}',
}


@contextmanager
def connected(server: ApiServer) -> Iterator[socket.socket]:
    """A connection of our own."""
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(PATIENCE_S)
        made.connect(server.path)
        yield made


def answered(connection: socket.socket) -> tuple[int, bytes]:
    """The status and body of an answer; 0 where the connection ended without one."""
    data = b""
    with suppress(OSError):
        while part := connection.recv(65536):
            data += part
            head, blank, body = data.partition(b"\r\n\r\n")
            length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n")
                           if line.lower().startswith(b"content-length")), None)  # fmt: skip
            if blank and length is not None and len(body) >= length:
                break
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body


def is_problem(status: int, body: bytes) -> bool:
    """Is it a problem document of that status?"""
    try:
        found = json.loads(body)
    except ValueError:
        return False
    return bool(status >= 400 and found["status"] == status and found["code"] and found["title"])


def memory(pid: int) -> int:
    """What a process has in memory now, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(each.split()[1] for each in lines if each.startswith("VmRSS")))


def malformed(server: ApiServer) -> list[str]:
    """Each gets a problem document below 500, and the next request an answer."""
    wrong = []
    whole = {f"body: {name}": HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
             for name, body in BODIES.items()}  # fmt: skip
    for name, sent in {**MALFORMED, **whole}.items():
        with connected(server) as connection:
            with suppress(OSError):
                connection.sendall(sent)
            status, body = answered(connection)
        if status >= 500 or not ((status == 200 and name in HARMLESS) or is_problem(status, body)):
            wrong.append(f"{name}: {status} {body[:200]!r}")
    return wrong


def long_bodies(server: ApiServer, size: int = 100 << 20) -> list[str]:
    """Refused early where the length is told, and else when too much has come; little memory."""
    wrong, before = [], memory(server.process.pid)
    with connected(server) as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size)
        status, body = answered(connection)  # before any of it was sent
        if (status, is_problem(status, body)) != (413, True):
            wrong.append(f"a told length: {status} {body[:200]!r}")
    part = b"%x\r\n" % (1 << 16) + b" " * (1 << 16) + b"\r\n"
    with connected(server) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        with suppress(OSError):
            for _ in range(size >> 16):
                connection.sendall(part)
        status, body = answered(connection)
        if (status, is_problem(status, body)) != (413, True):
            wrong.append(f"chunks: {status} {body[:200]!r}")
    grown = memory(server.process.pid) - before
    return wrong + ([f"{grown} KiB more in memory"] if grown > MEMORY_KIB else [])


def slow_heads(server: ApiServer) -> list[str]:
    """Bytes that come for ever: 408 after the time for headers."""
    return _slow(server, b"GET /v1/vms HTTP/1.1\r\nHost: x\r\n", HEAD_S)


def slow_bodies(server: ApiServer) -> list[str]:
    """The same with a body."""
    return _slow(server, HEAD + b"Content-Length: 1000\r\n\r\n", BODY_S)


def _slow(server: ApiServer, begin: bytes, longest_s: float) -> list[str]:
    began = time.monotonic()
    with connected(server) as connection:
        connection.settimeout(0.5)
        connection.sendall(begin)
        data = b""
        while not data and time.monotonic() < began + longest_s + PATIENCE_S:
            with suppress(TimeoutError):
                connection.sendall(b"x")
                data = connection.recv(65536)
        took_s = time.monotonic() - began
        head, _, body = data.partition(b"\r\n\r\n")
    if b" 408 " not in head or not is_problem(408, body) or took_s < longest_s / 2:
        return [f"after {took_s:.0f} s: {data[:200]!r}"]
    return []


def slow_readers(server: ApiServer, ledger: SqlLedger) -> list[str]:
    """One that reads no events is let go, holds nobody up, and has all of them in the end."""
    first = ledger.trail_since(None).end
    request = b"GET /v1/events HTTP/1.1\r\nHost: x\r\nLast-Event-ID: %d\r\n\r\n" % first
    wrong: list[str] = []
    with connected(server) as slow:
        slow.sendall(request)
        for _ in range(600):
            ledger.record_access(AccessEvent.LOGIN, "x" * 4000)
        began = time.monotonic()
        if server.ask("GET", "/v1/vms").status != 200:
            wrong.append("others are not answered")
        time.sleep(max(0.0, STUCK_S + 5 - (time.monotonic() - began)))
        data, ended = b"", False
        with suppress(OSError):
            while part := slow.recv(1 << 20):
                data += part
            ended = True
        if not ended and not data:
            wrong.append("it heard nothing")
        if len(data) > 2 << 20:
            wrong.append(f"{len(data)} bytes were kept for it")
    heard = [int(line[4:]) for line in data.split(b"\n")[:-1] if line.startswith(b"id: ")]
    heard = heard[:-1]  # the last may be cut
    end = ledger.trail_since(None).end
    for seq, _ in server.events(after=heard[-1] if heard else first):
        heard.append(seq)
        if seq >= end:
            break
    if heard != sorted(set(heard)) or heard[-1] < end:
        wrong.append("not every event came once and in order")
    return wrong


def many_connections(server: ApiServer, number: int) -> list[str]:
    """More than may be: those that idle longest are refused, requests are answered."""
    kept: list[socket.socket] = []
    wrong: list[str] = []
    try:
        for _ in range(number):
            kept.append(_patiently_connected(server))
        began = time.monotonic()
        answer = server.ask("GET", "/v1/operations")
        if answer.status != 200 or time.monotonic() - began > 3 * PATIENCE_S:
            wrong.append(f"a request gets {answer.status}, {time.monotonic() - began:.1f} s")
        status, body = answered(kept[0])
        if not is_problem(status, body) or status not in {408, 503}:
            wrong.append(f"the first is told {status} {body[:200]!r}")
    finally:
        for each in kept:
            each.close()
    return wrong


def _patiently_connected(server: ApiServer) -> socket.socket:
    """A connection, once the server takes it."""
    made, until = socket.socket(socket.AF_UNIX), time.monotonic() + PATIENCE_S
    made.settimeout(PATIENCE_S)
    while True:
        try:
            made.connect(server.path)
        except BlockingIOError:  # its line is full
            assert time.monotonic() < until, "no connection is taken"
            time.sleep(0.01)
        else:
            return made


def client_cases(
    server: ApiServer, ledger: SqlLedger, *, whole: bool
) -> dict[str, Callable[[], list[str]]]:
    """All of them; without ``whole`` those that take no long time."""
    cases: dict[str, Callable[[], list[str]]] = {
        "malformed": lambda: malformed(server),
        "long bodies": lambda: long_bodies(server, (100 if whole else 16) << 20),
        "many connections": lambda: many_connections(server, 10_000 if whole else 4500),
    }
    if whole:
        cases |= {
            "slow heads": lambda: slow_heads(server),
            "slow bodies": lambda: slow_bodies(server),
            "slow readers": lambda: slow_readers(server, ledger),
        }
    return cases
