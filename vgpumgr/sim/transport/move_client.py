"""libvirt's client in a live move: it drives both daemons, phase by phase, over one connection."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from vgpumgr.hosts.program_runner import CallCut
from vgpumgr.model.codec import to_plain
from vgpumgr.model.domain import LiveMove
from vgpumgr.model.errors import HostRefused, HostUnreachable, OutcomeUnknown, VgpumgrError
from vgpumgr.model.ports import Host


class FleetCall(Protocol):
    """A call to one of the fleet's hosts: host, target, method, arguments, kind of the answer."""

    def __call__(
        self, name: str, target: str, method: str, arguments: dict[str, Any], kind: Any, /
    ) -> Any:
        """The answer; may raise CallCut."""


Connect = Callable[[], AbstractContextManager[FleetCall]]


@dataclass(frozen=True, slots=True)
class FleetPeer:
    """A simulated host's name in its fleet, and how to get a connection to that fleet."""

    connect: Connect
    name: str


def no_peer(here: FleetPeer, target: Host) -> HostRefused:
    """What is not a simulated host is never the target of one."""
    return HostRefused(
        f"nothing goes from {here.name} to {target.name}",
        why=f"{here.name} is simulated, {target.name} is a real host",
    )


def drive(source: FleetPeer, target: FleetPeer, move: LiveMove) -> None:
    """Move a domain. HostRefused: it runs at the source; OutcomeUnknown: look at both.

    What is raised in here by force (a killed client) leaves the hosts as libvirt would.
    """
    if source.connect != target.connect:
        raise HostRefused(
            f"nothing goes from {source.name} to {target.name}", why="they are of two fleets"
        )
    with source.connect() as call:
        drive = _Drive(call, source.name, target.name, move)
        try:
            drive.run()
        except CallCut as cut:
            raise OutcomeUnknown(
                f"the move of domain {move.name} was aborted",
                why=cut.why,
                next=f"vgpumgr host probe {source.name}",
            ) from cut


@dataclass(frozen=True, slots=True)
class _Drive:
    """As virDomainMigrateVersion3Full does it (libvirt 9.0 src/libvirt-domain.c)."""

    call: FleetCall
    source: str
    target: str
    move: LiveMove

    def run(self) -> None:
        plain = to_plain(self.move)
        self._do(self.source, "begin", move=plain)
        try:
            self._do(self.target, "prepare", move=plain)
        except VgpumgrError:
            self._end(self.source, "confirm", cancelled=True)
            raise
        try:
            while not self._do(self.source, "perform", name=self.move.name):
                continue
        except VgpumgrError as error:
            self._end(self.target, "finish", cancelled=True)
            self._end(self.source, "confirm", cancelled=True)
            raise self._seen(error) from error
        self._settle()

    def _settle(self) -> None:
        try:
            self._do(self.target, "finish", name=self.move.name, cancelled=False)
        except VgpumgrError as error:
            self._end(self.source, "confirm", cancelled=True)
            raise self._seen(error) from error
        try:
            self._do(self.source, "confirm", name=self.move.name, cancelled=False)
        except VgpumgrError as error:
            raise self._unknown(error) from error

    def _do(self, host: str, method: str, **arguments: Any) -> Any:
        return self.call(host, "moves", method, arguments, None)

    def _end(self, host: str, method: str, *, cancelled: bool) -> None:
        with suppress(VgpumgrError):  # the first error is the one to tell
            self._do(host, method, name=self.move.name, cancelled=cancelled)

    def _seen(self, error: VgpumgrError) -> VgpumgrError:
        return self._unknown(error) if isinstance(error, HostUnreachable) else error

    def _unknown(self, error: VgpumgrError) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"the move of domain {self.move.name} was aborted",
            why=f"{error.message}: {error.why}",
            next=f"vgpumgr host probe {self.source}",
        )
