"""The helper as it lies on a simulated host: over the same call as everything else."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.host import Installed
from vgpumgr.sim.transport.calls import Call


@dataclass(frozen=True, slots=True)
class SimInstallation:
    """Fulfils ``ports.Installation``."""

    call: Call

    def look(self) -> Installed:
        """What is there."""
        found: Installed = self.call("node", "look", {}, Installed)
        return found

    def install(self) -> None:
        """Have claims restored at boot, as the roles set a host up."""
        self.call("node", "install", {}, None)

    def remove(self) -> None:
        """Boot as a host without the unit."""
        self.call("node", "uninstall", {}, None)
