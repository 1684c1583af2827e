"""The socket of the fleet's process: where it lies, the messages on it, the client's end of it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import select
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from vgpumgr.hosts.program_runner import CallCut
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import HostRefused, HostUnreachable, NotPermitted, VgpumgrError, kind_of

PROGRAM = "program"
"""The target of a request after which a connection is the helper's stdin and stdout."""

_MAX_SOCKET_PATH = 107
_BYTES = "base64"


def socket_path(state: Path) -> Path:
    """Where the process of this state folder listens: a path short enough for a unix socket.

    Makes the folder if need be; NotPermitted when it is not ours alone.
    """
    name = f"{hashlib.sha256(os.fsencode(state.absolute())).hexdigest()[:24]}.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(runtime, "vgpumgr", name) if runtime else _fallback(name)
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
        path = _fallback(name)
    _require_private(path.parent)
    return path


def _fallback(name: str) -> Path:
    return Path(f"/tmp/vgpumgr-{os.getuid()}", name)  # noqa: S108  ours alone: checked below


def _require_private(folder: Path) -> None:
    with suppress(FileExistsError):  # a link that leads nowhere, say: it is looked at below
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NotPermitted(
            f"{folder} is not a folder of ours alone",
            why="others could listen in place of the simulated hosts",
            next=f"remove it, or set XDG_RUNTIME_DIR (then: chmod 700 {folder})",
        )


def send(stream: BinaryIO, message: Mapping[str, Any]) -> None:
    """Write one message; BrokenPipeError when nobody reads."""
    stream.write(_ENCODER.encode(message).encode() + b"\n")
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, Any] | None:
    """Read one message; None when the other side is gone."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    # Few messages carry bytes, and a hook is called for every object of all others.
    decoder = _WITH_BYTES if _BYTES.encode() in line else _PLAIN
    message: dict[str, Any] = decoder.decode(line.decode())
    return message


def error_message(error: VgpumgrError) -> dict[str, Any]:
    """An error as it travels."""
    return {
        "code": error.code,
        "message": error.message,
        "why": error.why,
        "next": error.next,
        "errno_name": getattr(error, "errno_name", ""),
    }


def error_from(message: Mapping[str, Any]) -> VgpumgrError:
    """The same error again."""
    kind = kind_of(message["code"])
    words = {"why": message["why"], "next": message["next"]}
    if issubclass(kind, HostRefused):
        return kind(message["message"], **words, errno_name=message["errno_name"])
    return kind(message["message"], **words)


def _encode(value: object) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    return to_plain(value)


def _decode(value: dict[str, Any]) -> Any:
    if value.keys() == {_BYTES}:
        return base64.b64decode(value[_BYTES])
    return value


_ENCODER = json.JSONEncoder(default=_encode, separators=(",", ":"))
_PLAIN, _WITH_BYTES = json.JSONDecoder(), json.JSONDecoder(object_hook=_decode)


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
    """Calls to the process of one state folder, from any number of threads.

    Connections are kept and handed out for one call at a time.
    """

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
        request = {"host": host, "target": PROGRAM, "method": "start", "args": {}}
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
            send(connection.asks, request)
            message = receive(connection.answers)
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
            return _Connection(socket_path(self._state))
        except OSError as error:
            raise HostUnreachable(
                f"cannot reach {host}" if host else "the simulated fleet is down",
                why="the simulated fleet is down" if host else error.strerror or str(error),
                next="vgpumgr sim up",
            ) from error


def _result(message: dict[str, Any]) -> Any:
    if "error" in message:
        raise error_from(message["error"])
    return message["result"]
