"""The listening: a unix socket whose peer is known by its uid, TLS where it is configured, and the
loopback for readers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from cryptography import x509

from vgpumgr.api.connections import HttpConnection, OpenConnections
from vgpumgr.api.console_websocket import MOST_MESSAGE, PING_S, ConsoleWebsocket
from vgpumgr.api.service import Service
from vgpumgr.model.errors import Conflict, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI


RELOAD_S = 2.0
MAX_BYTES = 1 << 20
_log = logging.getLogger("vgpumgr.api")


class TlsFiles:
    """A certificate and its key, PEM. A pair that is not whole, does not belong together or has
    expired is never taken: connections to come use the one before.
    """

    def __init__(self, certificate: Path, key: Path, context: ssl.SSLContext) -> None:
        self._files = (certificate, key)
        self._context = context
        self._seen = self._times()
        self._told = ""

    async def follow(self) -> None:
        """Look for renewed files, for ever."""
        while True:
            await asyncio.sleep(RELOAD_S)
            self.look()

    def look(self) -> bool:
        """Take what has changed; was it taken?"""
        now = self._times()
        if now == self._seen:
            return False
        try:
            certificate, key = (_read(each) for each in self._files)
            require_usable(certificate, key)
        except (OSError, ValueError, UsageError) as error:
            if str(error) != self._told:
                _log.warning("the renewed certificate is not taken: %s", error)
            self._told = str(error)
            return False
        _load(self._context, certificate, key)
        self._seen, self._told = now, ""
        _log.warning("the certificate was read again")
        return True

    def _times(self) -> list[tuple[int, int]]:
        with suppress(OSError):
            found = [each.stat() for each in self._files]
            return [(each.st_mtime_ns, each.st_size) for each in found]
        return []


def require_usable(certificate: bytes, key: bytes) -> None:
    """UsageError or ssl.SSLError (an OSError) where TLS cannot be spoken with them now."""
    # A failed load leaves a context without a key: a context of its own is tried first.
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
    until = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    if until < datetime.now(UTC):
        raise UsageError(f"it expired on {until:%Y-%m-%d}")


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with _in_memory(certificate) as first, _in_memory(key) as second:
        context.load_cert_chain(first, second, password="")


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path that has just these bytes: the files themselves may change between two looks."""
    number = os.memfd_create("vgpumgr-tls")
    try:
        os.write(number, data)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES)


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
