"""Simulated hosts as ``ports.Hosts`` without process and socket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from vgpumgr.hosts.helper.call import Identity
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.simulated import SimFleet
from vgpumgr.sim.client import Opened
from vgpumgr.sim.fleet import SimulatedFleet
from vgpumgr.sim.transport.moving import FleetCall


class InProcessHosts:
    """The hosts of a fleet in this process: for tests, and for runs on virtual time."""

    def __init__(self, fleet: SimFleet, *, identity: Identity = lambda: ("", 0)) -> None:
        self.fleet = SimulatedFleet(fleet)
        self._hosts = Opened(self._call, self.session, identity, timeout_s=0.0)

    def open(self, record: HostRecord) -> Host:
        """The host."""
        return self._hosts.open(record)

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

    def _call(
        self, name: str, target: str, method: str, arguments: Mapping[str, Any], _kind: Any
    ) -> Any:
        return self.fleet.call(name, target, method, arguments)
