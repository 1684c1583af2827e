"""Simulated hosts as ``ports.Hosts`` without process and socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpumgr.hosts.helper.call import Identity
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.simulated import SimFleet
from vgpumgr.sim.client import Opened
from vgpumgr.sim.fleet import SimulatedFleet


class InProcessHosts:
    """The hosts of a fleet in this process: for tests, and for runs on virtual time."""

    def __init__(self, fleet: SimFleet, *, identity: Identity = lambda: ("", 0)) -> None:
        self.fleet = SimulatedFleet(fleet)
        self._hosts = Opened(self._call, identity, timeout_s=0.0)

    def open(self, record: HostRecord) -> Host:
        """The host."""
        return self._hosts.open(record)

    def close(self) -> None:
        """Power off."""
        self.fleet.close()

    def _call(
        self, name: str, target: str, method: str, arguments: Mapping[str, Any], _kind: Any
    ) -> Any:
        return self.fleet.call(name, target, method, arguments)
