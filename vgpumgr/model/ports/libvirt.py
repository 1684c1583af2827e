"""libvirt of one host, by intent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from vgpumgr.model.domain import DomainFacts, GuestFacts, KeptBeside, Ownership, VolumeFacts
from vgpumgr.model.host import StoragePool
from vgpumgr.model.migration import LiveMove, MoveProgress

if TYPE_CHECKING:
    from vgpumgr.model.ports.host import Host


class Domains(Protocol):
    """libvirt by intent: domains of one host. What changes one takes its UUID for its name, too, so
    that no other that has the name by then is meant.
    """

    def list(self) -> tuple[DomainFacts, ...]:
        """Every domain, foreign ones included."""

    def look(self, name: str) -> DomainFacts | None:
        """One domain, or None when the host surely has none of that name."""

    def xml(self, name: str) -> str:
        """The inactive XML; NotFound when there is none."""

    def define(self, xml: str) -> str:
        """Define with validation and return the XML read back."""

    def start(self, name: str) -> None:
        """Start; a running domain is no error."""

    def shutdown(self, name: str) -> None:
        """Ask the guest to power off (ACPI)."""

    def reboot(self, name: str) -> None:
        """Ask the guest to reboot."""

    def destroy(self, name: str) -> None:
        """Power off; a domain that is off is no error."""

    def undefine(self, name: str) -> None:
        """Forget it, its NVRAM included; an absent domain is no error."""

    def set_autostart(self, name: str, on: bool) -> None:
        """Start with the host, or not."""

    def live_xml(self, name: str) -> str:
        """The running domain's XML as a target of a migration has to take it over."""

    def set_ownership(self, name: str, mark: Ownership | None) -> None:
        """Put our mark into a domain's metadata, or take it out (None): in its definition and, if
        it runs, there too. Nothing else of it changes, and a guest notices nothing.
        """

    def kept_beside(self, name: str) -> KeptBeside:
        """What of the domain would stay behind if it were defined elsewhere."""

    def cpu_fits(self, xml: str) -> bool | None:
        """Can a guest with the CPU of this domain XML run here? None when libvirt cannot tell."""

    def migrate(self, move: LiveMove, target: Host) -> None:
        """Move a running domain to ``target``, pre-copy; returns when it runs there.

        The source stays defined, shut off. HostRefused: it runs here as before. OutcomeUnknown:
        look at both.
        """

    def cancel_migration(self, name: str) -> None:
        """End a move that is under way; the domain goes on here. None under way is no error."""

    def migration_progress(self, name: str) -> MoveProgress | None:
        """How far the move of this domain is; None when none is under way."""

    def resume(self, name: str) -> None:
        """Let a paused domain go on; one that runs is no error."""

    def guest(self, name: str) -> GuestFacts | None:
        """What the agent in the guest tells; None where none answers, or the domain is off."""


class Storage(Protocol):
    """libvirt by intent: storage pools and volumes of one host."""

    def pools(self) -> tuple[StoragePool, ...]:
        """Every storage pool."""

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None when the pool surely has none of that name."""

    def create(self, pool: str, xml: str, *, copy_from: str | None = None) -> VolumeFacts:
        """Create a volume from XML; with ``copy_from`` its data comes from that volume."""

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Write ``data`` (a cloud-init seed: at most a few MiB) into the volume."""

    def volumes(self, pool: str) -> tuple[VolumeFacts, ...]:
        """Every volume of a pool, those included that came by other ways."""

    def fill(self, pool: str, volume: str, length: int, pieces: Iterable[bytes | int]) -> None:
        """Write the whole file of a raw volume that was just made with ``length`` bytes, piece by
        piece: data, or the length of a hole. What the pieces raise ends it, half done.
        """

    def delete(self, pool: str, volume: str) -> None:
        """Delete; an absent volume is no error."""

    def xml(self, pool: str, volume: str) -> str:
        """The volume's XML; NotFound when there is none."""

    def copy_to(self, pool: str, volume: str, target: Host, seen: Callable[[int], None]) -> None:
        """The file behind a volume, byte for byte, into the file of the volume of that pool and
        name on ``target``, which exists and has the same format; ``seen`` hears of the bytes that
        went over. It goes through us, in pieces, holes left out; nobody may use either volume.
        """
