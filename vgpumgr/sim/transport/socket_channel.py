"""The client's end of the socket: connections are kept and handed out one call at a time."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vgpumgr.hosts.program_runner import CallCut
from vgpumgr.model.errors import HostUnreachable
from vgpumgr.sim.transport import wire


class _Connection:
    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self.asks = self.socket.makefile("wb")
        self.answers = self.socket.makefile("rb")

    def stale(self) -> bool:
        """Readable before anything was asked: the other side is gone."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def close(self) -> None:
        for each in (self.asks, self.answers, self.socket):
            try:
                each.close()
            except OSError:
                continue  # bytes that could not be sent any more


class Channel:
    """Calls to the process of one state folder, from any number of threads."""

    def __init__(self, state: Path, timeout_s: float) -> None:
        self._state = state
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()

    def call(self, host: str, target: str, method: str, args: dict[str, Any]) -> Any:
        """One call and its plain answer; the error it raised there is raised here.

        HostUnreachable when the process is down, CallCut when it does not answer in time or dies
        meanwhile.
        """
        connection = self._take(host)
        request = {"host": host, "target": target, "method": method, "args": args}
        try:
            message = self._ask(connection, request)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return _result(message)

    @contextmanager
    def alone(self) -> Iterator[Callable[[str, str, str, dict[str, Any]], Any]]:
        """Calls over one connection that nobody else uses, and that is closed at the end."""
        connection = self._connect("")

        def call(host: str, target: str, method: str, args: dict[str, Any]) -> Any:
            request = {"host": host, "target": target, "method": method, "args": args}
            return _result(self._ask(connection, request))

        try:
            yield call
        finally:
            connection.close()

    def program(self, host: str) -> socket.socket:
        """A connection that is the stdin and stdout of the helper on a host."""
        connection = self._connect(host)
        request = {"host": host, "target": wire.PROGRAM, "method": "start", "args": {}}
        try:
            _result(self._ask(connection, request))
            connection.socket.settimeout(None)
            return connection.socket.dup()
        finally:
            connection.close()

    def close(self) -> None:
        """Drop all idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def _ask(self, connection: _Connection, request: dict[str, Any]) -> dict[str, Any]:
        connection.socket.settimeout(self._timeout_s)
        try:
            wire.send(connection.asks, request)
            message = wire.receive(connection.answers)
        except TimeoutError:
            why = f"no answer within {self._timeout_s:g} s"
            raise CallCut(why, timed_out=True) from None
        except ConnectionError:
            message = None
        if message is None:
            raise CallCut("the simulated fleet lost power meanwhile")
        return message

    def _take(self, host: str) -> _Connection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect(host)
            if not connection.stale():
                return connection
            connection.close()

    def _connect(self, host: str) -> _Connection:
        try:
            return _Connection(wire.socket_path(self._state))
        except OSError as error:
            raise HostUnreachable(
                f"cannot reach {host}" if host else "the simulated fleet is down",
                why="the simulated fleet is down" if host else error.strerror or str(error),
                next="vgpumgr sim up",
            ) from error


def _result(message: dict[str, Any]) -> Any:
    if "error" in message:
        raise wire.error_from(message["error"])
    return message["result"]
