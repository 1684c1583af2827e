"""Simulated hosts as a process that can be copied: ``fork`` is the snapshot.

It is what ``vgpumgr sim`` runs, but for one thing: a single thread answers all clients, so that the
process can fork at any moment. The copy begins where the original stood, on a socket of its own.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import time
import traceback
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from tests.faults.mortal import CONTROL, change
from tests.faults.processes import fork
from vgpumgr.model.domain import DomainState
from vgpumgr.sim.injection import inject
from vgpumgr.sim.sim_server import SimServer
from vgpumgr.sim.simulated_fleet import ClientSession, SimulatedFleet
from vgpumgr.sim.transport import fleet_socket

_PROBE = json.dumps({"verb": "probe", "args": {}})


class Watch:
    """Sees, after each change, who runs where: the oracle for what must be true at every moment."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self._fleet = fleet
        self._twice_since: dict[str, float] = {}
        self._seconds = 0.0
        self._shared: set[str] = set()

    @property
    def plain(self) -> dict[str, Any]:
        self.look()
        return {"dual_running_s": self._seconds, "shared": sorted(self._shared)}

    def look(self) -> None:
        """A VM that runs on two hosts, a device that two domains have."""
        now = time.monotonic()
        hosts: dict[str, list[str]] = {}
        for name, host in self._fleet.hosts.items():
            users: dict[str, str] = {}
            for domain in host.domains.list():
                if domain.state is DomainState.RUNNING and domain.ownership:
                    hosts.setdefault(domain.ownership.vm_id, []).append(name)
                if domain.state in {DomainState.RUNNING, DomainState.PAUSED}:
                    for device in domain.devices:
                        if users.setdefault(device, domain.name) != domain.name:
                            both = f"{users[device]} and {domain.name}"
                            self._shared.add(f"{device} on {name} is used by {both}")
        twice = {vm_id for vm_id, found in hosts.items() if len(found) > 1}
        for vm_id in twice - self._twice_since.keys():
            self._twice_since[vm_id] = now
        for vm_id in self._twice_since.keys() - twice:
            self._seconds += now - self._twice_since.pop(vm_id)
        for vm_id in twice:
            self._seconds += now - self._twice_since[vm_id]
            self._twice_since[vm_id] = now


class Client:
    """One connection, and what it began."""

    def __init__(self, connection: socket.socket, fleet: SimulatedFleet) -> None:
        self.connection = connection
        self.asked: BinaryIO = connection.makefile("rb")
        self.answers: BinaryIO = connection.makefile("wb")
        self.session: ClientSession = fleet.session()

    def close(self) -> None:
        self.session.close()
        for each in (self.asked, self.answers, self.connection):
            try:
                each.close()
            except OSError:
                continue


class Simulator:
    """Serves the fleet until it is told to quit."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self._fleet = fleet
        self._watch = Watch(fleet)
        self._clients: dict[int, Client] = {}
        self._listener: socket.socket | None = None
        self._selector = selectors.DefaultSelector()

    def serve(self, state: Path, ready: int) -> NoReturn:
        """Listen where clients of ``state`` look, write a byte to ``ready``, answer for ever."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        path = fleet_socket.socket_path(state)
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        os.write(ready, b"1")
        os.close(ready)
        try:
            self._answer_for_ever(self._listener, path)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def _answer_for_ever(self, listener: socket.socket, path: Path) -> NoReturn:
        while True:
            for key, _ in self._selector.select():
                if key.fd == listener.fileno():
                    self._accept(listener)
                else:
                    self._answer(self._clients[key.fd], path)

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        self._clients[connection.fileno()] = Client(connection, self._fleet)
        self._selector.register(connection, selectors.EVENT_READ)

    def _answer(self, client: Client, path: Path) -> None:
        """One request; a client has at most one on its way."""
        try:
            request = fleet_socket.receive(client.asked)
            if request is None:
                return self._drop(client)
            answer = self._control(client, request, path)
            if answer is None:
                answer = SimServer(self._fleet, client.connection, path.parent)._answer(
                    client.session, request
                )
                if change(request):
                    self._watch.look()
            fleet_socket.send(client.answers, answer)
        except ConnectionError:
            self._drop(client)

    def _drop(self, client: Client) -> None:
        self._selector.unregister(client.connection)
        del self._clients[client.connection.fileno()]
        client.close()
        self._watch.look()

    def _settle(self, asking: Client, path: Path) -> None:
        """What killed clients left on its way arrives, and that they are gone."""
        for key, _ in self._selector.select(0):
            client = self._clients.get(key.fd)
            if client is not None and client is not asking:
                self._answer(client, path)

    def _control(
        self, client: Client, request: Mapping[str, Any], path: Path
    ) -> dict[str, Any] | None:
        if request["target"] != CONTROL:
            return None
        self._settle(client, path)
        match request["method"]:
            case "fork":
                return {"result": self._fork(Path(request["args"]["state"]))}
            case "dump":
                return {"result": self._dump()}
            case "power":
                return {"result": self._fleet.host(request["host"]).faults.powered}
            case "inject":
                host = self._fleet.host(request["host"])
                return {"result": inject(host, request["args"]["words"])}
            case _:
                path.unlink(missing_ok=True)
                os._exit(0)

    def _fork(self, state: Path) -> int:
        """A copy of these hosts, serving ``state``; returns when it does."""
        read, write = os.pipe()
        pid = fork()
        if pid == 0:
            os.close(read)
            self._forget_clients()
            self.serve(state, write)
        os.close(write)
        with closing(os.fdopen(read, "rb")) as ready:
            ready.read(1)
        return pid

    def _forget_clients(self) -> None:
        """They are the original's: closed here without a word to the hosts."""
        self._selector.close()
        if self._listener is not None:
            self._listener.close()
        for client in self._clients.values():
            client.connection.close()
        self._clients = {}

    def _dump(self) -> dict[str, Any]:
        return {"hosts": dump_of(self._fleet), "watch": self._watch.plain}


def dump_of(fleet: SimulatedFleet) -> dict[str, Any]:
    """Every host as the checker wants it; one without power cannot be read."""
    return {
        name: _host(host) if host.faults.powered else None for name, host in fleet.hosts.items()
    }


def _host(host: Any) -> dict[str, Any]:
    """The simulation's raw state, as the checker wants it."""
    answer = json.loads(host.helper(_PROBE))
    return {
        "probe": answer["result"],
        "domains": [
            {
                "name": each.name,
                "uuid": each.uuid,
                "state": each.state.value,
                "persistent": each.persistent,
                "autostart": each.autostart,
                "xml": host.domains.xml(each.name),
            }
            for each in host.domains.list()
        ],
        "volumes": [
            [each.pool, each.name]
            for shelf in (host.storage._own, host.storage._shared)
            for each in shelf.all()
            if each.pool in host.host.pools
        ],
        "shared_pools": list(host.host.seen_elsewhere),
    }
