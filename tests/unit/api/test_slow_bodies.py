"""How long a body may take: a whole one at a time, an upload by what comes of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from vgpumgr.api import connections
from vgpumgr.api.connections import HttpConnection, OpenConnections

BODY_S, PIECE_S, PIECES = 0.5, 0.1, 12


async def _taken(scope: Any, receive: Any, send: Any) -> None:
    """Takes all that comes."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that waits half a second for a body, or for each 64 bytes of an upload."""
    monkeypatch.setattr(connections, "BODY_S", BODY_S)
    monkeypatch.setattr(connections, "UPLOAD_BYTES", 64)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    http: Any = partial(HttpConnection, open_connections=OpenConnections(10))
    config = uvicorn.Config(_taken, http=http, ws="none", lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    yield str(tmp_path / "s")
    server.should_exit = True
    thread.join(10)
    listener.close()


def _status(path: str, request: str, piece: bytes, pieces: int) -> int:
    """The status after so many pieces of a body that has as many."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(path)
        head = f"{request} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(piece) * PIECES}\r\n\r\n"
        connection.sendall(head.encode())
        with contextlib.suppress(BrokenPipeError):
            for _ in range(pieces):
                connection.sendall(piece)
                time.sleep(PIECE_S)
        return int(connection.recv(1000).split()[1])


@pytest.mark.parametrize(
    ("request_", "piece", "pieces", "status"),
    [
        ("POST /v1/vms:apply", b"x" * 64, PIECES, 408),
        ("PATCH /v1/uploads/it", b"x" * 64, PIECES, 200),
        ("PATCH /v1/uploads/it", b"x", PIECES, 408),
        ("PATCH /v1/uploads/it", b"x" * 64, 2, 408),
    ],
    ids=["a body", "an upload", "an upload that trickles", "an upload that stops"],
)
def test_what_comes_too_slowly_is_let_go(
    path: str, request_: str, piece: bytes, pieces: int, status: int
) -> None:
    assert _status(path, request_, piece, pieces) == status
