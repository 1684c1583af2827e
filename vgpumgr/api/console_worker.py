"""The process that joins consoles for the API: SSH and its threads, apart from the event loop.

Over the socket that it is started with come requests, a JSON object and one end of a socket pair
each; for each it says, by ``id``, whether the console is joined to that end. Either end's close
ends both. At the end of its socket the process ends, and all connections with it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.console_ticket import ConsoleKind
from vgpumgr.model.errors import VgpumgrError

if TYPE_CHECKING:
    from vgpumgr.app import App
    from vgpumgr.model.ports import Stream

MAX_MESSAGE = 64 << 10
_PIECE = 128 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedConsole:
    """The console of a VM on a host."""

    host: str
    vm: str
    vm_id: str
    kind: ConsoleKind


def join(viewer: socket.socket, console: Stream) -> None:
    """Carry both directions until either side ends; then both are closed."""

    def up() -> None:
        with suppress(OSError):
            while piece := viewer.recv(_PIECE):
                console.sendall(piece)
        console.close()

    thread = threading.Thread(target=up, name="console-up", daemon=True)
    thread.start()
    with suppress(OSError):
        while piece := console.recv(_PIECE):
            viewer.sendall(piece)
    with suppress(OSError):
        viewer.shutdown(socket.SHUT_RDWR)
    console.close()
    thread.join()
    viewer.close()


class _Consoles:
    def __init__(self, app: App, control: socket.socket) -> None:
        self._app = app
        self._control = control
        self._telling = threading.Lock()

    def open(self, asked: Mapping[str, Any], viewer: socket.socket) -> None:
        """Join a console to a viewer, and stay until the end."""
        wanted, id_ = from_plain(WantedConsole, asked), asked["id"]
        try:
            host = self._app.engine.host(wanted.host)
            console = host.console(wanted.vm, wanted.vm_id, wanted.kind)
        except Exception as error:
            viewer.close()
            self._failed(id_, error)
            return
        self._tell({"id": id_})
        join(viewer, console)

    def _failed(self, id_: int, error: Exception) -> None:
        from vgpumgr.api.worker import unexpected

        told = error if isinstance(error, VgpumgrError) else unexpected(error)
        self._tell({"id": id_, "error": told.as_dict()})
        if told is not error:
            raise error

    def _tell(self, message: Mapping[str, Any]) -> None:
        with self._telling, suppress(OSError):
            self._control.send(json.dumps(to_plain(message)).encode()[:MAX_MESSAGE])


def main() -> None:
    """Serve the API's requests until its end."""
    from vgpumgr.app import App
    from vgpumgr.app.config import load_config

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    overrides = json.loads(control.recv(MAX_MESSAGE))
    app = App(load_config(os.environ, Path.cwd(), overrides))
    app.engine.ledger.fleet_id()
    consoles = _Consoles(app, control)
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE, 1)
        if not data:
            break
        viewer = socket.socket(fileno=descriptors[0])
        threading.Thread(
            target=consoles.open, args=(json.loads(data), viewer), name="console", daemon=True
        ).start()
    os._exit(0)  # threads that wait for hosts would hold up the end


if __name__ == "__main__":
    main()
