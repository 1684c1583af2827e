"""Requests that join: after the answer, stdin and stdout are a connection's two directions."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from vgpumgr.helper import arguments
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.dispatch import Answer, answered
from vgpumgr.helper.errors import BAD_ARGUMENT, HelperError
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import console

VERB = "console"
_PIECE = 64 << 10


def asked(line: bytes) -> dict[str, Any] | None:
    """The request, if this line is one of this kind; every other goes to the end of stdin."""
    if not line.endswith(b"\n"):
        return None
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return request if isinstance(request, dict) and request.get("verb") == VERB else None


def joined(request: Mapping[str, Any], system: System) -> tuple[Answer, console.Connection | None]:
    """The answer, and the connection where there is one."""
    made: list[console.Connection] = []

    def work() -> Answer:
        arguments.known(request, ("verb", "args", "fleet"))
        args = request.get("args")
        if not isinstance(args, dict):
            raise HelperError(BAD_ARGUMENT, "argument 'args' is not an object")
        arguments.known(args, console.TAKES)
        made.append(console.attach(Call(system, args, arguments.fleet(request))))
        return {}

    answer = answered(work)
    return answer, (made[0] if made else None)


def serve(request: Mapping[str, Any], system: System) -> None:
    """Answer on one line; then, if that went well, join until either end is closed."""
    answer, connection = joined(request, system)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    if connection is not None:
        with connection:
            _join(connection)


def _join(connection: console.Connection) -> None:
    """Returns when the connection has ended, or whoever called us has."""
    threading.Thread(target=_from_stdin, args=(connection,), daemon=True).start()
    with suppress(OSError):
        while piece := connection.recv(_PIECE):
            view = memoryview(piece)
            while view:
                view = view[os.write(1, view) :]


def _from_stdin(connection: console.Connection) -> None:
    # Not through sys.stdin: a thread that waits in its buffer would hold up the end.
    with suppress(OSError):
        while piece := os.read(0, _PIECE):
            connection.sendall(piece)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
