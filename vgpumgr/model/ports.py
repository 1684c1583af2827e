"""Protocols that the outer rooms fulfil. The engine knows hosts and the store only by these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from vgpumgr.model.audit import AuditRecord
from vgpumgr.model.domain import DomainFacts, KeptBeside, Ownership, VolumeFacts
from vgpumgr.model.fence import Proof
from vgpumgr.model.freeze import Freeze, HostsTruth, Remembered
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord, Installed, StoragePool
from vgpumgr.model.journal import (
    OperationRecord,
    Refusal,
    Reservation,
    TaskRecord,
    Transition,
)
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.migration import LiveMove, MoveProgress
from vgpumgr.model.vm import Allocation, AllocationState, VmRecord
from vgpumgr.model.waits import WAITS

T = TypeVar("T")
K = TypeVar("K")
K_co = TypeVar("K_co", covariant=True)


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


class Fencing(Protocol):
    """What knows, from outside a host, that it is off."""

    def switch_off(self, host: HostRecord) -> Proof:
        """Switch it off and see it off; NotPermitted when nobody can tell that it is."""

    def proof(self, host: HostRecord) -> Proof | None:
        """Why it is surely off now; None when it may be on. Nothing is done to it."""


class Clock(Protocol):
    """Wall time for records, monotonic time for deadlines."""

    def now(self) -> float:
        """Unix time in seconds."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def wait(self, seconds: float) -> None:
        """Pause between two polls."""


class Waiting(Protocol):
    """For how long hosts that were asked side by side are waited for."""

    def insists_on(self, host: str) -> bool:
        """Is it asked again, though it still hangs from an earlier look?"""

    def more_s(self, took: Mapping[str, float], silent: Mapping[str, float]) -> float:
        """How many more seconds to wait, 0 or less for none. ``took``: what each host took that
        answered; ``silent``: for how long each of the others has said nothing, those left out
        that failed.
        """


class Looks(Protocol[K_co]):
    """Looks at several hosts under way, side by side; nothing is begun before the first wait."""

    @property
    def answers(self) -> Mapping[str, K_co | Exception]:
        """What is known of each host by now."""

    def wait(self, waiting: Waiting) -> Mapping[str, float]:
        """Wait so long; the hosts that have not answered, with the seconds for which they were
        silent. Their answers count if somebody waits once more.
        """

    def leave(self) -> None:
        """Nobody waits any more: late answers are dropped."""


class Lanes(Protocol):
    """Runs work of different hosts side by side, work of one host in order."""

    def run(
        self, work: Mapping[str, Callable[[], T]], within_s: float | None = WAITS.look_s
    ) -> dict[str, T | Exception]:
        """Run one callable per host name; an exception becomes that host's value.

        One that has not returned after ``within_s`` is left alone, with DeadlineExceeded as its
        value. None is for work that changes hosts: it has deadlines of its own, and must be seen
        to its end.
        """

    def look(self, work: Mapping[str, Callable[[], T]], keep: Callable[[str, T], K]) -> Looks[K]:
        """Looks whose answers go through ``keep``, one after the other, in the thread that waits:
        what nobody waits for is never kept.
        """


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

    def take_host(self, now: float, until: float) -> str | None:
        """The enrolled host whose look is due longest, or None; its next look is due at ``until``.

        Controllers that ask at the same time get different hosts. Unix seconds.
        """

    def host_due(self, host: str, at: float) -> None:
        """The next look at a host is due at ``at`` (Unix seconds)."""

    def gpus(self, host: str | None = None) -> tuple[GpuRecord, ...]:
        """GPUs, of one host or of all."""

    def vms(self, host: str | None = None, ids: Collection[str] = ()) -> tuple[VmRecord, ...]:
        """VMs that are not deleted, by name; with ``host`` those that are there or move there, and
        those of these ``ids`` wherever they are.
        """

    def vm(self, name: str) -> VmRecord:
        """One VM; NotFound suggests near names."""

    def allocations(
        self, host: str | None = None, vm_ids: Collection[str] = (), *, released: bool = False
    ) -> tuple[Allocation, ...]:
        """Allocations that hold units; with ``released`` the closed ones too. With ``host`` those
        there, and those of these VMs wherever they are.
        """

    def layouts(self, host: str | None = None) -> tuple[LayoutRecord, ...]:
        """The layout of every GPU (of one host or all) that ever got one, by host and device."""

    def reserve(self, reservation: Reservation) -> None:
        """Write a whole operation's start in one transaction, or raise and write nothing."""

    def refuse(self, refusals: Sequence[Refusal]) -> None:
        """Keep refused requests for history."""

    def record(self, *transitions: Transition) -> None:
        """Make transitions durable, together, before returning (commits may be shared)."""

    def operations(
        self, *, open_only: bool = False, since: float | None = None
    ) -> tuple[OperationRecord, ...]:
        """Operations, newest first; with ``since`` only the open ones and those that ended after
        that time (Unix seconds).
        """

    def operation(self, operation_id: str) -> OperationRecord:
        """One operation by id or unique prefix; NotFound otherwise."""

    def tasks(self, operation_id: str) -> tuple[TaskRecord, ...]:
        """The tasks of an operation with their steps."""

    def mark(self, allocations: Sequence[str], state: AllocationState) -> None:
        """Active allocations become orphaned, or orphaned ones active; units stay held.

        StaleGeneration, and nothing is written, when one of them is neither any more.
        """

    def quarantine(self, gpu: str, why: str) -> None:
        """Place nothing on a GPU (our id) any more; what is on it stays."""

    def lift(self, gpu: str) -> None:
        """Use a quarantined GPU again; Conflict for one that is not quarantined."""

    def deleted_vms(self, ids: Collection[str]) -> frozenset[str]:
        """Which of these ids are VMs that were deleted; an id of no VM is not among them."""

    def claim_operation(self, operation_id: str) -> bool:
        """Become its only worker until it ends or waits, or close(); False while another live
        process is. Who reserves an operation is its worker. Once the claim was lost (only a
        server's session can be), record() and reserve() raise ClaimLost.
        """

    def is_worked_on(self, operation_id: str) -> bool:
        """Does a live process, this one included, work on it? Nothing is claimed."""

    def claim(self, name: str) -> bool:
        """Hold any other name (``serve``, ``host:NAME``) until release() or close(); False while
        another live process does.
        """

    def release(self, name: str) -> None:
        """Let go of a name; one that is not held is no error."""

    def spoken_epoch(self) -> int:
        """The epoch this process speaks to hosts in: the one it first read, or raised by a
        take-over, or took by :meth:`fresh_epoch`.
        """

    def fresh_epoch(self) -> int:
        """The epoch now, spoken from now on, for who still holds all it claimed; ClaimLost
        otherwise.
        """

    def audit(
        self,
        *,
        vm: str = "",
        host: str = "",
        operation: str = "",
        event: str = "",
        limit: int | None = None,
    ) -> tuple[AuditRecord, ...]:
        """The trail, newest first; each filter that is set must match (``operation`` and
        ``event`` by their beginning).
        """

    def freeze(self, why: str) -> None:
        """Allocate nothing any more, until :meth:`thaw`; a frozen ledger keeps its first reason."""

    def frozen(self) -> Freeze | None:
        """Why nothing may be allocated; None where it may."""

    def remembered(
        self, *, vms: Collection[str], allocations: Collection[str], gpus: Collection[str]
    ) -> Remembered:
        """The epoch, and the generations of these ids where the ledger ever had them."""

    def take_in(self, truth: HostsTruth) -> None:
        """Write what hosts know and a frozen ledger does not.

        StaleGeneration, and nothing is written, where a unit, a device or a name is somebody
        else's; Conflict where the ledger is not frozen.
        """

    def thaw(self, epoch: int) -> None:
        """Allocate again, in an epoch above the store's and at least ``epoch``, spoken from now on
        as by :meth:`fresh_epoch`.
        """

    def raise_epoch(self, at_least: int = 0) -> int:
        """The next epoch, or ``at_least`` where that is higher, spoken from now on as by
        :meth:`fresh_epoch`; returns the new one.
        """

    def close(self) -> None:
        """Flush and let go."""
