"""The listening: a unix socket whose peer is known by its uid, TLS where it is configured, and the
loopback for readers.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import ssl
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from vgpumgr.api.connections import HttpConnection, OpenConnections
from vgpumgr.api.console_websocket import MOST_MESSAGE, PING_S, ConsoleWebsocket
from vgpumgr.api.service import Service
from vgpumgr.api.tls_files import TlsFiles
from vgpumgr.model.errors import Conflict, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

KEEP_ALIVE_S = 30
END_S = 30
MOST_HEAD = 64 << 10
"""The longest request line with its headers, in bytes."""
BACKLOG = 2048
LOOPBACK = "127.0.0.1"
HANDSHAKE_S = 10.0
MOST_CONNECTIONS = 4000
"""Of each listener; fewer where the process may open fewer files."""
_OTHER_FILES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsListener:
    """Where TLS is listened at, with which files; ``client_ca``: certificates of clients."""

    host: str
    port: int
    certificate: Path
    key: Path
    client_ca: Path | None = None


class _Server(uvicorn.Server):
    """A server whose end is told from outside."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are caught once for all servers."""
        yield


class _EventLoop(asyncio.SelectorEventLoop):
    """A loop that lets TLS take its time, but not all of it."""

    async def create_server(self, *args: Any, **named: Any) -> asyncio.Server:
        """The same with a limit for handshakes."""
        if named.get("ssl") is not None:
            named.setdefault("ssl_handshake_timeout", HANDSHAKE_S)
        return await super().create_server(*args, **named)


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


def serve_api(
    service: Service,
    application: FastAPI,
    socket_path: Path,
    tls: TlsListener | None,
    reading_port: int | None = None,
) -> bool:
    """Serve until SIGTERM or Ctrl-C; requests that are being answered are ended first. True where
    it ended because another ledger lies in the place of the one that was opened. At
    ``reading_port`` of the loopback everybody on this machine may read.
    """
    listener = unix_listener(socket_path)
    try:
        most = most_connections()
        servers = [(_Server(_config(application, most)), [listener])]
        if tls is not None:
            listeners = [_tcp_listener(tls.host, tls.port)]
            servers.append((_Server(_config(application, most, tls)), listeners))
        if reading_port is not None:
            listeners = [_tcp_listener(LOOPBACK, reading_port)]
            servers.append((_Server(_config(application, most, readers=True)), listeners))
        with asyncio.Runner(loop_factory=_EventLoop) as runner:
            return runner.run(_run(service, servers))
    finally:
        service.close()
        with suppress(FileNotFoundError):
            socket_path.unlink()


def most_connections() -> int:
    """How many connections a listener takes; as many files as may be are allowed first."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 20 if hard == resource.RLIM_INFINITY else hard
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(MOST_CONNECTIONS, (soft - _OTHER_FILES) // 3))


def _config(
    application: FastAPI, most: int, tls: TlsListener | None = None, *, readers: bool = False
) -> uvicorn.Config:
    connections = OpenConnections(most)
    connection: Any = partial(HttpConnection, open_connections=connections, readers=readers)
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
        http=connection,
        ws=ConsoleWebsocket,
        ws_max_size=MOST_MESSAGE,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_per_message_deflate=False,
        loop="asyncio",
        lifespan="off" if tls is not None or readers else "on",
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


def _tcp_listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        where = f"{host}:{port}"
        raise Conflict(f"{where} cannot be listened at", why=error.strerror or "") from error


async def _run(service: Service, servers: list[tuple[_Server, list[socket.socket]]]) -> bool:
    """Until it is told to end, or the ledger was replaced: True."""
    loop, told = asyncio.get_running_loop(), False

    def end() -> None:
        nonlocal told
        told = True
        _end(service, servers)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    beside = [asyncio.create_task(_renewed(server)) for server, _ in servers]
    beside.append(asyncio.create_task(_ended_by(service, servers)))
    await asyncio.gather(*(server.serve(sockets=sockets) for server, sockets in servers))
    for each in beside:
        each.cancel()
    return service.replaced.is_set() and not told


def _end(service: Service, servers: list[tuple[_Server, list[socket.socket]]]) -> None:
    service.changes.end_streams()
    for server, _ in servers:
        server.should_exit = True


async def _ended_by(service: Service, servers: list[tuple[_Server, list[socket.socket]]]) -> None:
    await service.replaced.wait()
    _end(service, servers)


async def _renewed(server: _Server) -> None:
    """Take a renewed certificate for connections to come."""
    config = server.config
    while not server.started:
        await asyncio.sleep(0.1)
    if config.ssl_certfile and config.ssl_keyfile and config.ssl is not None:
        files = TlsFiles(Path(config.ssl_certfile), Path(config.ssl_keyfile), config.ssl)
        await files.follow()
