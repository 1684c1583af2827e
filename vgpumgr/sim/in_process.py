"""Simulated hosts as ``ports.Hosts`` without process and socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from vgpumgr.hosts.helper.helper_call import Identity
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimFleet
from vgpumgr.sim import joined_helper
from vgpumgr.sim.sim_client import Opened
from vgpumgr.sim.simulated_fleet import SimulatedFleet
from vgpumgr.sim.transport.move_client import FleetCall


class InProcessHosts:
    """The hosts of a fleet in this process: for tests, and for runs on virtual time.

    ``clock`` is that of who looks at them, in seconds; without one time stands still, and every
    look asks libvirt.
    """

    def __init__(
        self,
        fleet: SimFleet,
        *,
        identity: Identity = lambda: ("", 0),
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.fleet = SimulatedFleet(fleet)
        self._clock = clock
        self._hosts = self.seen_by(identity)

    def open(self, record: HostRecord) -> Host:
        """The host."""
        return self._hosts.open(record)

    def seen_by(self, identity: Identity) -> Opened:
        """The same hosts as another fleet reaches them."""
        return Opened(
            self._call, self.session, self._program, identity, timeout_s=0.0, clock=self._clock
        )

    def close(self) -> None:
        """Power off."""
        self.fleet.close()

    @contextmanager
    def session(self) -> Iterator[FleetCall]:
        """One connection of a client; what was begun over it ends with it."""
        with closing(self.fleet.session()) as session:

            def call(name: str, target: str, method: str, arguments: Any, _kind: Any) -> Any:
                return session.call(name, target, method, arguments)

            yield call

    def _program(self, name: str, _argv: Sequence[str]) -> joined_helper.SocketProgram:
        self.fleet.reach(name)
        near, far = socket.socketpair()
        threading.Thread(target=self._joined, args=(name, far), daemon=True).start()
        return joined_helper.SocketProgram(near)

    def _joined(self, name: str, far: socket.socket) -> None:
        with far, far.makefile("rb") as asked, suppress(OSError):
            joined_helper.serve(self.fleet, name, far, asked)

    def _call(
        self, name: str, target: str, method: str, arguments: Mapping[str, Any], _kind: Any
    ) -> Any:
        return self.fleet.call(name, target, method, arguments)
