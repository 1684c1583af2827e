"""The process that serves the simulated hosts: ``python -m vgpumgr.sim.sim_server STATE_DIR``.

It ends when it is told to, or when its state folder is gone; killing it is a power cut.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import threading
import time
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO

from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.sim_fleet import SimFleet, SimHost
from vgpumgr.sim import joined_helper
from vgpumgr.sim.injection import fault_words
from vgpumgr.sim.redfish_service import RedfishService
from vgpumgr.sim.simulated_fleet import ClientSession, SimulatedFleet
from vgpumgr.sim.transport import fleet_socket

FLEET, LOCK = "fleet.json", "lock"
SIM = "sim"

_LOOK_S = 1.0
_LOCK_S, _LOCK_POLL_S = 10.0, 0.02
_BACKLOG = 512


class SimServer:
    """Accepts clients, one thread for each."""

    def __init__(self, fleet: SimulatedFleet, listener: socket.socket, state: Path) -> None:
        self._fleet = fleet
        self._state = state
        self._listener = listener
        self._redfish: RedfishService | None = None
        self._starting = threading.Lock()
        self.stopping = threading.Event()

    def accept(self) -> None:
        """Accept clients for ever."""
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            closing(self._fleet.session()) as session,
            client,
            client.makefile("rb") as asked,
            client.makefile("wb") as answers,
        ):
            try:
                while request := fleet_socket.receive(asked):
                    if request["target"] == fleet_socket.PROGRAM:
                        self._join(request["host"], client, asked, answers)
                        return
                    fleet_socket.send(answers, self._answer(session, request))
            except ConnectionError:
                return  # the client gave up waiting; what it asked for was done nevertheless

    def _join(self, host: str, client: socket.socket, asked: BinaryIO, answers: BinaryIO) -> None:
        """From now on the connection is the program's."""
        try:
            self._fleet.reach(host)
        except VgpumgrError as error:
            fleet_socket.send(answers, {"error": fleet_socket.error_message(error)})
        else:
            fleet_socket.send(answers, {"result": None})
            joined_helper.serve(self._fleet, host, client, asked)

    def _answer(self, session: ClientSession, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": self._do(session, **request)}
        except VgpumgrError as error:
            return {"error": fleet_socket.error_message(error)}
        except Exception as defect:
            traceback.print_exc()
            why = f"{type(defect).__name__}: {defect}"
            return {
                "error": fleet_socket.error_message(
                    VgpumgrError("the simulated fleet failed", why=why)
                )
            }

    def _do(
        self, session: ClientSession, host: str, target: str, method: str, args: dict[str, Any]
    ) -> Any:
        if target != SIM:
            return session.call(host, target, method, args)
        if method == "inject":
            return self._fleet.inject(host, args["words"])
        if method == "add":
            return self._add([from_plain(SimHost, each) for each in args["hosts"]])
        if method == "redfish":
            return self._redfish_at(int(args["port"]))
        if method == "stop":
            return self.stopping.set()
        return self._status()

    def _redfish_at(self, port: int) -> dict[str, str]:
        """Where the Redfish service is; started once, at that port."""
        with self._starting:
            if self._redfish is None:
                self._redfish = RedfishService(self._fleet, self._state, port)
            return self._redfish.told()

    def _add(self, hosts: list[SimHost]) -> None:
        """Add hosts to the fleet's file first, so that they come up again with the others."""
        grown = self._fleet.grown(hosts)
        (self._state / FLEET).write_text(json.dumps(to_plain(grown), indent=1))
        self._fleet.add(grown)

    def _status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "fleet": self._fleet.fleet,
            "running_domains": self._fleet.running(),
            "redfish": self._redfish.url if self._redfish is not None else "",
            "faults": {
                name: words
                for name, host in self._fleet.hosts.items()
                if (words := fault_words(host))
            },
            "without_fabric": {
                name: guests
                for name, host in self._fleet.hosts.items()
                if (guests := host.guests_without_fabric())
            },
        }


def main(state: Path) -> NoReturn:
    """Power on and serve until the end."""
    with (state / LOCK).open("w") as lock:
        if not _locked(lock):
            sys.exit(f"another process is the hosts of {state}")
        plain = json.loads((state / FLEET).read_text())
        fleet = SimulatedFleet(from_plain(SimFleet, plain), state)
        path = fleet_socket.socket_path(state)
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(_BACKLOG)
            server = SimServer(fleet, listener, state)
            threading.Thread(target=server.accept, daemon=True).start()
            identity = _identity(state)
            while not server.stopping.wait(_LOOK_S) and _identity(state) == identity:
                pass
            path.unlink(missing_ok=True)
            # A power cut: calls that hang or still run are not waited for.
            os._exit(0)


def _locked(lock: TextIO) -> bool:
    """Wait a little: a process that was killed holds on until its last thread is gone."""
    deadline = time.monotonic() + _LOCK_S
    while time.monotonic() < deadline:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_POLL_S)
        else:
            return True
    return False


def _identity(state: Path) -> tuple[int, int] | None:
    try:
        found = state.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


if __name__ == "__main__":
    main(Path(sys.argv[1]))
