"""Fencing of simulated hosts: their power switch, and what it says."""

from __future__ import annotations

from vgpumgr.model.errors import NotPermitted
from vgpumgr.model.host import HostRecord, Proof
from vgpumgr.sim.simulated_fleet import SimulatedFleet


class SimFencing:
    """``broken``: the switch does nothing. ``asked`` are the hosts whose status was read."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self._fleet = fleet
        self.broken = False
        self.asked: list[str] = []

    def switch_off(self, host: HostRecord) -> Proof:
        if not self.broken:
            self._fleet.inject(host.name, ["off"])
        found = self.proof(host)
        if found is None:
            raise NotPermitted(f"{host.name} is not proven to be off")
        return found

    def proof(self, host: HostRecord) -> Proof | None:
        self.asked.append(host.name)
        if self._fleet.host(host.name).faults.powered:
            return None
        return Proof(host=host.name, how="the switch says 'off'")
