"""`vgpumgr api` as a process, and plain requests to it over its unix socket."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.support import Cli, Ran, finish, run_argv, until


class UnixHttp(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("vgpumgr", timeout=60)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, its headers (lower case) and the parsed body."""

    status: int
    headers: dict[str, str]
    body: Any


class ApiServer:
    """A running API. Called like ``Cli``, it runs a command at the server."""

    def __init__(
        self, cli: Cli, tls: tuple[str, ...] = (), name: str = "api", *, loopback: bool = False
    ) -> None:
        self.cli = cli
        self.port = _free_port() if tls else 0
        self.reading_port = _free_port() if loopback else 0
        self.path = str(cli.state / f"{name}.sock")
        listen = ("--listen", f"127.0.0.1:{self.port}", *tls) if tls else ()
        read = ("--loopback", str(self.reading_port)) if loopback else ()
        self.argv = ("--socket", self.path, *listen, *read)
        self.start()

    def start(self) -> None:
        """Start it (again), and wait until it answers."""
        self.process: subprocess.Popen[str] = self.cli.process("api", *self.argv)
        until(self._answers, "the API to answer")

    @property
    def url(self) -> str:
        """Where it listens with TLS."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def reading_url(self) -> str:
        """Where a login is not needed to read."""
        return f"http://127.0.0.1:{self.reading_port}"

    def _answers(self) -> bool:
        assert self.process.poll() is None, finish(self.process)
        try:
            return self.ask("GET", "/v1/operations").status == 200
        except OSError:
            return False

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """One request; a body that is no text or bytes is sent as JSON."""
        connection = UnixHttp(self.path)
        given = dict(headers or {})
        if body is not None and not isinstance(body, str | bytes):
            body, given = json.dumps(body), {"Content-Type": "application/json", **given}
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, told, json.loads(data) if data else None)

    def events(self, after: int | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """The stream of events, as it comes."""
        connection = UnixHttp(self.path)
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        connection.request("GET", "/v1/events", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        try:
            seq = 0
            while line := answer.readline():
                if line.startswith(b"id: "):
                    seq = int(line[4:])
                elif line.startswith(b"data: "):
                    yield seq, json.loads(line[6:])
        finally:
            connection.close()

    def __call__(self, *args: str, stdin: bytes = b"") -> Ran:
        """A command at the server, from a client without a state folder of its own."""
        away = str(Path(self.cli.folder) / "client")
        server = f"unix:{self.path}"
        return run_argv("vgpumgr", "--state-dir", away, "--server", server, *args, stdin=stdin)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        finish(self.process)

    def end(self) -> Ran:
        """End it well."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return finish(self.process)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def serving_api(
    cli: Cli, tls: tuple[str, ...] = (), name: str = "api", *, loopback: bool = False
) -> Iterator[ApiServer]:
    """A running API over the fleet of ``cli``; with the options ``tls`` also on the loopback."""
    server = ApiServer(cli, tls, name, loopback=loopback)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()
