"""The listening: a unix socket whose peer is known by its uid, and TLS where it is configured."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
import stat
import struct
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vgpumgr.api.application import make_application
from vgpumgr.api.authentication import PEER, Peer
from vgpumgr.api.problems import problem
from vgpumgr.api.service import Service
from vgpumgr.model.errors import Conflict, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

KEEP_ALIVE_S = 30
END_S = 30
BACKLOG = 512
RELOAD_S = 2.0
MOST_HEAD = 64 << 10
"""The longest request line with its headers, in bytes."""
_log = logging.getLogger("vgpumgr.api")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsListener:
    """Where TLS is listened at, with which files; ``client_ca``: certificates of clients."""

    host: str
    port: int
    certificate: Path
    key: Path
    client_ca: Path | None = None


class PeerProtocol(H11Protocol):
    """HTTP whose requests know the other end of their connection."""

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or too much of it, is a problem like any other."""
        told = UsageError(msg, why="a request line and its headers are at most 64 KiB")
        answer = problem(told, status=400)
        headers = [*answer.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def connection_made(self, transport: Any) -> None:
        """Put the peer into the scope of every request of the connection."""
        super().connection_made(transport)
        app, peer = self.app, _peer(transport)

        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, PEER: peer}, receive, send)

        self.app = with_peer


def _peer(transport: Any) -> Peer:
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if tls is not None:
        return Peer(certificate=tls.getpeercert(binary_form=True))
    found = transport.get_extra_info("socket")
    if found is None or found.family != socket.AF_UNIX:
        return Peer()
    size = struct.calcsize("3i")
    told = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return Peer(uid=struct.unpack("3i", told)[1])


class _Server(uvicorn.Server):
    """A server whose end is told from outside."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are caught once for all servers."""
        yield


def unix_listener(path: Path) -> socket.socket:
    """A listening socket of mode 0660; Conflict where another process listens there."""
    if len(os.fsencode(path)) > 107:
        raise UsageError(f"{path} is too long for a socket", next="--socket with a shorter path")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise Conflict(f"{path} is there, and no socket", next="--socket with another path")
        if _answers(path):
            raise Conflict(f"another process listens at {path}", why="is vgpumgr api running?")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o117)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    return listener


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def serve_api(service: Service, socket_path: Path, tls: TlsListener | None) -> None:
    """Serve until SIGTERM or Ctrl-C; requests that are being answered are ended first."""
    listener = unix_listener(socket_path)
    try:
        application = make_application(service)
        servers = [(_Server(_config(application)), [listener])]
        if tls is not None:
            servers.append((_Server(_config(application, tls)), [_tcp_listener(tls)]))
        asyncio.run(_run(servers))
    finally:
        service.close()
        with suppress(FileNotFoundError):
            socket_path.unlink()


def _config(application: FastAPI, tls: TlsListener | None = None) -> uvicorn.Config:
    secure: dict[str, Any] = {}
    if tls is not None:
        secure = {
            "ssl_certfile": str(tls.certificate),
            "ssl_keyfile": str(tls.key),
            "ssl_ca_certs": str(tls.client_ca) if tls.client_ca else None,
            "ssl_cert_reqs": ssl.CERT_OPTIONAL if tls.client_ca else ssl.CERT_NONE,
        }
    return uvicorn.Config(
        application,
        http=PeerProtocol,
        ws="none",
        loop="asyncio",
        lifespan="on" if tls is None else "off",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=END_S,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=MOST_HEAD,
        **secure,
    )


def _tcp_listener(tls: TlsListener) -> socket.socket:
    family = socket.AF_INET6 if ":" in tls.host else socket.AF_INET
    try:
        return socket.create_server((tls.host, tls.port), family=family, backlog=BACKLOG)
    except OSError as error:
        where = f"{tls.host}:{tls.port}"
        raise Conflict(f"{where} cannot be listened at", why=error.strerror or "") from error


async def _run(servers: list[tuple[_Server, list[socket.socket]]]) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        for server, _ in servers:
            server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    reloads = [asyncio.create_task(_reload(server.config)) for server, _ in servers]
    await asyncio.gather(*(server.serve(sockets=sockets) for server, sockets in servers))
    for each in reloads:
        each.cancel()


async def _reload(config: uvicorn.Config) -> None:
    """Take a certificate that was renewed for connections to come; what cannot be read is tried
    again, and the old one is used meanwhile.
    """
    if not config.ssl_certfile or not config.ssl_keyfile:
        return
    files = [Path(config.ssl_certfile), Path(config.ssl_keyfile)]
    seen = _times(files)
    while True:
        await asyncio.sleep(RELOAD_S)
        now = _times(files)
        if now != seen and config.ssl is not None:
            try:
                config.ssl.load_cert_chain(files[0], files[1])
            except (OSError, ssl.SSLError) as error:
                _log.warning("the certificate cannot be read: %s", error)
                continue
            seen = now
            _log.warning("the certificate was read again")


def _times(files: list[Path]) -> list[int]:
    with suppress(OSError):
        return [each.stat().st_mtime_ns for each in files]
    return []
