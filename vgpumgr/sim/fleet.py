"""All simulated hosts of one fleet, and the one way to call them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import HostUnreachable, NotFound
from vgpumgr.model.simulated import SimFleet
from vgpumgr.sim.durable import Durable, Journal
from vgpumgr.sim.host import SimulatedHost

JOURNAL = "durable.jsonl"


class SimulatedFleet:
    """The hosts, powered on. Without ``state`` nothing survives them."""

    def __init__(self, fleet: SimFleet, state: Path | None = None) -> None:
        self.fleet = fleet
        self._journal = Journal(state / JOURNAL) if state else None
        self.hosts = {
            host.name: SimulatedHost(host, Durable(host.name, self._journal))
            for host in fleet.hosts
        }
        for each in self.hosts.values():
            each.domains.boot()

    def call(self, name: str, target: str, method: str, arguments: Mapping[str, Any]) -> Any:
        """One call that comes over the host's network: faults bite, calls queue."""
        host = self.host(name)
        host.faults.pass_through(name)
        with host.lock:
            if target == "helper":
                return host.helper(arguments["request"])
            return host.call(target, method, arguments)

    def inject(self, name: str, words: Sequence[str]) -> None:
        """Make a host misbehave; comes from outside, so no fault stops it."""
        try:
            host = self.host(name)
        except HostUnreachable as error:
            raise NotFound(error.message, why=error.why, next=error.next) from error
        host.inject(words)

    def host(self, name: str) -> SimulatedHost:
        """One host by its name; HostUnreachable for any other."""
        found = self.hosts.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self.hosts, n=1)
            raise HostUnreachable(
                f"there is no simulated host {name}",
                why=f"did you mean {near[0]}?" if near else f"not in the fleet {self.fleet.name}",
                next="vgpumgr sim status",
            )
        return found

    def running(self) -> int:
        """How many domains run."""
        return sum(
            facts.state is DomainState.RUNNING
            for host in self.hosts.values()
            for facts in host.domains.list()
        )

    def close(self) -> None:
        """Power off."""
        for host in self.hosts.values():
            with host.lock:
                host.close()
        if self._journal is not None:
            self._journal.close()
