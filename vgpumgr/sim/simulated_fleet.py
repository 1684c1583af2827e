"""All simulated hosts of one fleet, and the one way to call them."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vgpumgr.helper.verbs.console import Connection
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict, HostRefused, HostUnreachable, NotFound
from vgpumgr.model.sim_fleet import SimFleet, SimHost
from vgpumgr.sim.injection import inject
from vgpumgr.sim.libvirt.live_moves import Piece
from vgpumgr.sim.libvirt.volume_files import Shelf
from vgpumgr.sim.machine.durable_texts import Durable, DurableJournal
from vgpumgr.sim.simulated_host import SimulatedHost

JOURNAL = "durable.jsonl"
# Beside the hosts' names in it: no host is called so.
SHARED = "shared storage"


class ClientSession:
    """What one client does over one connection: the moves it drives end with it."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self._fleet = fleet
        self._client = str(uuid.uuid4())
        self._moving: set[str] = set()

    def call(self, name: str, target: str, method: str, arguments: Mapping[str, Any]) -> Any:
        """One call, as the fleet's; who drives a move is told to its hosts."""
        if target == "moves" and method not in {"progress", "cancel"}:
            self._moving.add(name)
            arguments = {**arguments, "client": self._client}
        return self._fleet.call(name, target, method, arguments)

    def close(self) -> None:
        """The connection is gone: both ends of a move hear of it."""
        for name in self._moving:
            host = self._fleet.host(name)
            with host.lock:
                host.opened().moves.gone(self._client)


class SimulatedFleet:
    """The hosts, powered on. Without ``state`` nothing survives them."""

    def __init__(self, fleet: SimFleet, state: Path | None = None) -> None:
        self.fleet = fleet
        self._journal = DurableJournal(state / JOURNAL) if state else None
        self._shared = Shelf(Durable(SHARED, self._journal))
        self.hosts = {host.name: self._switched_on(host) for host in fleet.hosts}
        for each in self.hosts.values():
            each.start_units()

    def _switched_on(self, host: SimHost) -> SimulatedHost:
        return SimulatedHost(host, Durable(host.name, self._journal), self._shared)

    def grown(self, hosts: Sequence[SimHost]) -> SimFleet:
        """The fleet with these hosts; Conflict for a name that is taken."""
        for host in hosts:
            if host.name in self.hosts:
                raise Conflict(
                    f"the simulated fleet has a host {host.name}", next="vgpumgr sim status"
                )
        return replace(self.fleet, hosts=(*self.fleet.hosts, *hosts))

    def add(self, grown: SimFleet) -> None:
        """Switch on the hosts that are new. Others look at ``hosts`` meanwhile: it is replaced."""
        new = {h.name: self._switched_on(h) for h in grown.hosts if h.name not in self.hosts}
        for each in new.values():
            each.start_units()
        self.fleet, self.hosts = grown, {**self.hosts, **new}

    def call(self, name: str, target: str, method: str, arguments: Mapping[str, Any]) -> Any:
        """One call that comes over the host's network: faults bite, calls queue."""
        if (target, method) == ("moves", "perform"):
            return self._perform(name, arguments)
        host = self.host(name)
        host.faults.pass_through(name)
        with host.lock:
            if target == "helper":
                return host.helper(arguments["request"])
            return host.call(target, method, arguments)

    def reach(self, name: str) -> None:
        """A connection of its own to a host: faults bite."""
        self.host(name).faults.pass_through(name)

    def joined(
        self, name: str, request: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Connection | None]:
        """The answer to a request of the helper that joins, and the connection behind it."""
        host = self.host(name)
        with host.lock:
            return host.joined(request)

    def session(self) -> ClientSession:
        """One client's connection."""
        return ClientSession(self)

    def _perform(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """A piece of a move goes from QEMU to QEMU, by the hosts' own network; was it the last?

        Never two hosts' locks at once: of two opposite moves each would wait for the other.
        """
        source = self.host(name)
        source.faults.pass_through(name)
        with source.lock:
            piece: Piece = source.call("moves", "perform", arguments)
        try:
            target = self.host(piece.address)
            target.faults.pass_through(piece.address)
        except HostUnreachable as error:
            why = f"unable to connect to server at '{piece.address}:49152': {error.why}"
            raise HostRefused(f"cannot move domain {piece.name}", why=why) from error
        with target.lock:
            target.opened().moves.take(piece)
        with source.lock:
            return source.opened().moves.sent(**arguments)

    def inject(self, name: str, words: Sequence[str]) -> None:
        """Make a host misbehave; comes from outside, so no fault stops it."""
        try:
            host = self.host(name)
        except HostUnreachable as error:
            raise NotFound(error.message, why=error.why, next=error.next) from error
        inject(host, words)

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
            for facts in host.opened().domains.list()
        )

    def close(self) -> None:
        """Power off."""
        for host in self.hosts.values():
            with host.lock:
                host.close()
        if self._journal is not None:
            self._journal.close()
