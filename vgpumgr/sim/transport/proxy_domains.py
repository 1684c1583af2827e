"""The domains of a simulated host as a client sees them: every call goes through one function."""

from __future__ import annotations

from typing import Any

from vgpumgr.domainxml import mark_text
from vgpumgr.model.domain import DomainFacts, GuestFacts, KeptBeside, Ownership
from vgpumgr.model.migration import LiveMove, MoveProgress
from vgpumgr.model.ports import Host
from vgpumgr.sim.transport.calls import Call
from vgpumgr.sim.transport.moving import Place, drive, no_peer

_FACTS = tuple[DomainFacts, ...]


class ProxyDomains:
    """Fulfils ``ports.Domains``."""

    def __init__(self, call: Call, place: Place) -> None:
        self._call = call
        self._place = place

    def list(self) -> _FACTS:
        """Every domain, foreign ones included."""
        found: _FACTS = self._call("domains", "list", {}, _FACTS)
        return found

    def look(self, name: str) -> DomainFacts | None:
        """One domain, or None."""
        found: DomainFacts | None = self._call(
            "domains", "look", {"name": name}, DomainFacts | None
        )
        return found

    def xml(self, name: str) -> str:
        """The inactive XML."""
        return str(self._call("domains", "xml", {"name": name}, str))

    def define(self, xml: str) -> str:
        """Define and read back."""
        return str(self._call("domains", "define", {"xml": xml}, str))

    def start(self, name: str) -> None:
        """Start."""
        self._do("start", name=name)

    def shutdown(self, name: str) -> None:
        """Ask the guest to power off."""
        self._do("shutdown", name=name)

    def reboot(self, name: str) -> None:
        """Ask the guest to reboot."""
        self._do("reboot", name=name)

    def destroy(self, name: str) -> None:
        """Power off."""
        self._do("destroy", name=name)

    def undefine(self, name: str) -> None:
        """Forget it."""
        self._do("undefine", name=name)

    def set_autostart(self, name: str, on: bool) -> None:
        """Start with the host, or not."""
        self._do("set_autostart", name=name, on=on)

    def live_xml(self, name: str) -> str:
        """The running domain's XML."""
        return str(self._call("domains", "live_xml", {"name": name}, str))

    def set_ownership(self, name: str, mark: Ownership | None) -> None:
        """Put our mark into its metadata, or take it out."""
        self._do("set_metadata", name=name, text="" if mark is None else mark_text(mark))

    def kept_beside(self, name: str) -> KeptBeside:
        """Snapshots and saved memory."""
        found: KeptBeside = self._call("domains", "kept_beside", {"name": name}, KeptBeside)
        return found

    def cpu_fits(self, xml: str) -> bool | None:
        """Can a guest with that CPU run here?"""
        found: bool | None = self._call("domains", "cpu_fits", {"xml": xml}, None)
        return found

    def migrate(self, move: LiveMove, target: Host) -> None:
        """Move a running domain to another host of the same fleet."""
        peer = target.domains
        if not isinstance(peer, ProxyDomains):
            raise no_peer(self._place, target)
        drive(self._place, peer._place, move)

    def cancel_migration(self, name: str) -> None:
        """End a move that is under way."""
        self._call("moves", "cancel", {"name": name}, None)

    def migration_progress(self, name: str) -> MoveProgress | None:
        """How far the move is."""
        found: MoveProgress | None = self._call(
            "moves", "progress", {"name": name}, MoveProgress | None
        )
        return found

    def resume(self, name: str) -> None:
        """Let a paused domain go on."""
        self._do("resume", name=name)

    def guest(self, name: str) -> GuestFacts | None:
        """What its agent tells."""
        found: GuestFacts | None = self._call("domains", "guest", {"name": name}, GuestFacts | None)
        return found

    def _do(self, method: str, **arguments: Any) -> None:
        self._call("domains", method, arguments, None)
