"""One host, the program of ours on it, and how hosts are reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from vgpumgr.model.host import HostFacts, HostRecord, Installed
from vgpumgr.model.ports.libvirt import Domains, Storage
from vgpumgr.model.ports.stream import Stream


class Helper(Protocol):
    """The program on the host. Verbs, arguments and answers: docs/helper-protocol.md."""

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        """One verb. Raises HostRefused, InUse, Conflict, NotPermitted, OutcomeUnknown, …"""


class Installation(Protocol):
    """The helper as it lies on a host. Only a host that comes, goes or is upgraded needs it."""

    def look(self) -> Installed:
        """What is there; whoever may log in may look."""

    def install(self) -> None:
        """Put this vgpumgr's helper there in the place of any other, and see that it answers."""

    def remove(self) -> None:
        """Take it away, whosever it is; none there is no error."""


class Host(Protocol):
    """One reachable host. Connections are made on first use and kept."""

    @property
    def name(self) -> str:
        """The host's name in the ledger."""

    @property
    def helper(self) -> Helper:
        """The helper on it."""

    @property
    def installation(self) -> Installation:
        """How the helper got there."""

    @property
    def domains(self) -> Domains:
        """Its domains."""

    @property
    def storage(self) -> Storage:
        """Its storage."""

    def console(self, domain: str, vm_id: str) -> Stream:
        """A connection of its own to the VNC server of a running domain that is ours: it lasts
        until either end closes it. HostRefused: it is off, or has none.
        """

    def probe(self) -> HostFacts:
        """Read everything once. HostUnreachable when nothing could be read at all."""

    def close(self) -> None:
        """Drop the connections."""


class Hosts(Protocol):
    """Opens hosts by their ledger record; the composition root decides how each is reached."""

    def open(self, record: HostRecord) -> Host:
        """The host, not necessarily connected yet; the same object for the same record."""

    def close(self) -> None:
        """Drop all connections."""
