"""Protocols that the outer rooms fulfil. The engine knows hosts and the store only by these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from vgpumgr.model.domain import DomainFacts, KeptBeside, VolumeFacts
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord, StoragePool
from vgpumgr.model.journal import (
    OperationRecord,
    Refusal,
    Reservation,
    TaskRecord,
    Transition,
)
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.migration import LiveMove, MoveProgress
from vgpumgr.model.vm import Allocation, VmRecord

T = TypeVar("T")


class Helper(Protocol):
    """The program on the host. Verbs, arguments and answers: docs/helper-protocol.md."""

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        """One verb. Raises HostRefused, InUse, Conflict, NotPermitted, OutcomeUnknown, …"""


class Domains(Protocol):
    """libvirt by intent: domains of one host."""

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

    def delete(self, pool: str, volume: str) -> None:
        """Delete; an absent volume is no error."""

    def xml(self, pool: str, volume: str) -> str:
        """The volume's XML; NotFound when there is none."""

    def copy_to(self, pool: str, volume: str, target: Host, seen: Callable[[int], None]) -> None:
        """The file behind a volume, byte for byte, into the file of the volume of that pool and
        name on ``target``, which exists and has the same format; ``seen`` hears of the bytes that
        went over. It goes through us, in pieces, holes left out; nobody may use either volume.
        """


class Host(Protocol):
    """One reachable host. Connections are made on first use and kept."""

    @property
    def name(self) -> str:
        """The host's name in the ledger."""

    @property
    def helper(self) -> Helper:
        """The helper on it."""

    @property
    def domains(self) -> Domains:
        """Its domains."""

    @property
    def storage(self) -> Storage:
        """Its storage."""

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


class Clock(Protocol):
    """Wall time for records, monotonic time for deadlines."""

    def now(self) -> float:
        """Unix time in seconds."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def wait(self, seconds: float) -> None:
        """Pause between two polls."""


class Lanes(Protocol):
    """Runs work of different hosts side by side, work of one host in order."""

    def run(self, work: Mapping[str, Callable[[], T]]) -> dict[str, T | Exception]:
        """Run one callable per host name; an exception becomes that host's value."""


class Ledger(Protocol):
    """The durable record. Every method is one transaction; none spans a host call."""

    def fleet_id(self) -> str:
        """This fleet's id, made when the ledger was created."""

    def epoch(self) -> int:
        """The store's epoch; raised at take-over and restore."""

    def hosts(self) -> tuple[HostRecord, ...]:
        """Every enrolled host, by name."""

    def host(self, name: str) -> HostRecord:
        """One host; NotFound suggests near names."""

    def add_host(self, record: HostRecord) -> None:
        """Enrol; Conflict when the name or address is taken."""

    def update_host(self, record: HostRecord) -> None:
        """Write address, key, labels, cordon, … ; compares ``generation`` and raises it."""

    def remove_host(self, name: str) -> None:
        """Close the host's row; Conflict while anything is allocated on it."""

    def observe(self, facts: HostFacts, units: Mapping[str, int], at: float) -> None:
        """Keep a complete probe; new GPUs get their key, known ones are recognised by evidence.

        ``units`` maps the GPU's ``device`` to its slot count (used at first sight; a later
        larger count grows it, a smaller one never drops slots in use). Evidence that conflicts
        raises Conflict and changes nothing.
        """

    def observation_failed(self, host: str, error: str) -> None:
        """Remember why a probe failed; nothing else changes."""

    def gpus(self, host: str | None = None) -> tuple[GpuRecord, ...]:
        """GPUs, of one host or of all."""

    def vms(self) -> tuple[VmRecord, ...]:
        """VMs that are not deleted, by name."""

    def vm(self, name: str) -> VmRecord:
        """One VM; NotFound suggests near names."""

    def allocations(self, *, released: bool = False) -> tuple[Allocation, ...]:
        """Allocations that hold units; with ``released`` the closed ones too."""

    def layouts(self) -> tuple[LayoutRecord, ...]:
        """The layout of every GPU that ever got one, by host and device."""

    def reserve(self, reservation: Reservation) -> None:
        """Write a whole operation's start in one transaction, or raise and write nothing."""

    def refuse(self, refusals: Sequence[Refusal]) -> None:
        """Keep refused requests for history."""

    def record(self, *transitions: Transition) -> None:
        """Make transitions durable, together, before returning (commits may be shared)."""

    def operations(self, *, open_only: bool = False) -> tuple[OperationRecord, ...]:
        """Operations, newest first."""

    def operation(self, operation_id: str) -> OperationRecord:
        """One operation by id or unique prefix; NotFound otherwise."""

    def tasks(self, operation_id: str) -> tuple[TaskRecord, ...]:
        """The tasks of an operation with their steps."""

    def claim_operation(self, operation_id: str) -> bool:
        """Become its only worker until close(); False while another live process is."""

    def close(self) -> None:
        """Flush and let go."""
