"""The ledger as the engine knows it: the protocol of the durable record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from vgpumgr.model.api_request import RequestLedger
from vgpumgr.model.credential import AccessLedger
from vgpumgr.model.flavour import FlavourLedger
from vgpumgr.model.guest import GuestLedger
from vgpumgr.model.holiday_calendar import CalendarLedger
from vgpumgr.model.licence import LicenceLedger
from vgpumgr.model.notification import NotificationLedger
from vgpumgr.model.power import PowerLedger
from vgpumgr.model.profile_disk import ProfileDiskLedger
from vgpumgr.model.quota import QuotaLedger
from vgpumgr.model.sealed_trail import SealLedger
from vgpumgr.model.secret import SecretLedger
from vgpumgr.model.showback import UsageLedger
from vgpumgr.model.vm_backup import BackupLedger
from vgpumgr.model.webhook import WebhookLedger

if TYPE_CHECKING:
    from vgpumgr.model.allocation import Allocation, AllocationState
    from vgpumgr.model.console_ticket import ConsoleTicket, TicketMoved
    from vgpumgr.model.defrag import LogoffMove
    from vgpumgr.model.desktop import (
        Booking,
        DesktopRecord,
        DesktopRequestRecord,
        PastSession,
        PoolRecord,
    )
    from vgpumgr.model.gpu import GpuRecord
    from vgpumgr.model.history import (
        AccessEvent,
        AuditRecord,
        Holding,
        RequestRecord,
        TrailChanges,
        UploadEvent,
    )
    from vgpumgr.model.host import HostFacts, HostRecord, UnchangedLook
    from vgpumgr.model.image import ImageRecord
    from vgpumgr.model.layout import LayoutRecord
    from vgpumgr.model.ledger_state import Freeze, HostsTruth, Remembered
    from vgpumgr.model.operation import OperationRecord, Reservation, TaskRecord, Transition
    from vgpumgr.model.queue import QueueEntry, QueueMoved
    from vgpumgr.model.refusal import Refusal
    from vgpumgr.model.role_binding import Scope
    from vgpumgr.model.scoped_reads import ScopedReads
    from vgpumgr.model.vm import VmRecord


class Subscription(Protocol):
    """What is to be closed in the end."""

    def close(self) -> None:
        """Let go."""


class Ledger(
    AccessLedger,
    BackupLedger,
    CalendarLedger,
    FlavourLedger,
    GuestLedger,
    LicenceLedger,
    NotificationLedger,
    PowerLedger,
    ProfileDiskLedger,
    QuotaLedger,
    RequestLedger,
    SealLedger,
    SecretLedger,
    UsageLedger,
    WebhookLedger,
    Protocol,
):
    """Every method is one transaction; none spans a host call."""

    # Hosts and their GPUs.

    def hosts(self) -> tuple[HostRecord, ...]:
        """Every enrolled host, by name."""

    def host(self, name: str) -> HostRecord:
        """One host; NotFound suggests near names."""

    def namesakes(self, name: str, address: str) -> tuple[HostRecord, ...]:
        """The enrolled hosts of that name or address."""

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

    def take_hosts(self, now: float, until: float, limit: int) -> tuple[str, ...]:
        """At most ``limit`` enrolled hosts whose looks are due, those first that are due longest;
        their next looks are due at ``until``.

        Controllers that ask at the same time get different hosts. Unix seconds.
        """

    def host_due(self, host: str, at: float) -> None:
        """The next look at a host is due at ``at`` (Unix seconds)."""

    def hosts_due(self, due: Mapping[str, float]) -> None:
        """The same of many hosts; those that are not enrolled are passed over."""

    def looks_kept_up(self, now: float) -> frozenset[str]:
        """The hosts that a controller keeps looking at: the last look is not old and went well, and
        the next is not overdue.
        """

    def looked_again(self, looks: Collection[UnchangedLook]) -> frozenset[str]:
        """Keep when hosts were seen that showed no change; the hosts of which it was kept.

        It is where nobody else has observed the host since the look before, and that look did not
        fail: all others are to be observed.
        """

    def hear(self, heard: Callable[[], None]) -> Subscription:
        """Call ``heard``, in another thread, when another process may have made work for a
        controller. A hint: it may fail to come.
        """

    def gpus(self, host: str | None = None) -> tuple[GpuRecord, ...]:
        """GPUs, of one host or of all."""

    def layouts(self, host: str | None = None) -> tuple[LayoutRecord, ...]:
        """The layout of every GPU (of one host or all) that ever got one, by host and device."""

    def quarantine(self, gpu: str, why: str) -> None:
        """Place nothing on a GPU (our id) any more; what is on it stays."""

    def lift(self, gpu: str) -> None:
        """Use a GPU again that is quarantined, in back-off, or out for what was reported of it;
        Conflict where it is none of these.
        """

    def end_quarantine(self, gpu: str) -> None:
        """A GPU is quarantined no more, whatever was reported of it; Conflict where it is not."""

    def gpu_was_reset(self, gpu: str) -> None:
        """A GPU was reset and read back: what Xids reported before is over."""

    def refusals(self, operation: str | None = None) -> tuple[Refusal, ...]:
        """What GPUs and hosts refused and no success has closed, the oldest first; all of an
        operation (its whole id) where it is named.
        """

    # VMs, and what of which GPU they hold.

    def vms(self, host: str | None = None, ids: Collection[str] = ()) -> tuple[VmRecord, ...]:
        """VMs that are not deleted, by name; with ``host`` those that are there or move there, and
        those of these ``ids`` wherever they are.
        """

    def vm(self, name: str) -> VmRecord:
        """One VM; NotFound suggests near names."""

    def vms_with_guests(self) -> tuple[VmRecord, ...]:
        """VMs that are not deleted and whose files say what is made of their guests, by name."""

    def vms_ever(self, ids: Collection[str]) -> tuple[VmRecord, ...]:
        """The VMs of these ids as they are or were last, deleted ones too."""

    def deleted_vms(self, ids: Collection[str]) -> frozenset[str]:
        """Which of these ids are VMs that were deleted; an id of no VM is not among them."""

    def allocations(
        self, host: str | None = None, vm_ids: Collection[str] = (), *, released: bool = False
    ) -> tuple[Allocation, ...]:
        """Allocations that hold units; with ``released`` the closed ones too. With ``host`` those
        there, and those of these VMs wherever they are.
        """

    def mark(self, allocations: Sequence[str], state: AllocationState) -> None:
        """Active allocations become orphaned, or orphaned ones active; units stay held.

        StaleGeneration, and nothing is written, when one of them is neither any more.
        """

    def reserve(self, reservation: Reservation) -> None:
        """Write a whole operation's start in one transaction, or raise and write nothing."""

    def refuse(self, refused: Sequence[RequestRecord]) -> None:
        """Keep refused requests for history."""

    def requests(
        self, *, since: float = 0.0, vm: str = "", limit: int | None = None
    ) -> tuple[RequestRecord, ...]:
        """Requests from ``since`` (Unix seconds) on, the newest first; those for one VM's name
        where ``vm`` is given.
        """

    def holdings(self, since: float = 0.0) -> tuple[Holding, ...]:
        """What allocations hold of GPUs, or held after ``since`` (Unix seconds), oldest first."""

    # Who waits for room, who runs on it, and who has ended. ``reserve`` moves entries, too.

    def queue(self, names: Collection[str] = ()) -> tuple[QueueEntry, ...]:
        """What waits or runs, what has waited longest first; of ``names`` what is closed, too."""

    def enqueue(self, entries: Sequence[QueueEntry]) -> None:
        """Let VMs wait; StaleGeneration, and nothing is written, where one is in the queue."""

    def move_queue(self, moves: Sequence[QueueMoved]) -> None:
        """Move entries; StaleGeneration, and nothing is written, where another moved one."""

    def cancel_queued(self, names: Sequence[str]) -> None:
        """Close what waits; NotFound for what is not there, Conflict for what runs: all or none."""

    # Pools, their desktops, who waits for one, bookings, and moves that wait for a logoff.
    # ``reserve`` moves desktops, too.

    def pools(self) -> tuple[PoolRecord, ...]:
        """Pools that were not deleted, by name."""

    def pool(self, name: str) -> PoolRecord:
        """One pool; NotFound suggests near names."""

    def put_pool(self, pool: PoolRecord) -> None:
        """Write a pool; StaleGeneration where it, or one of that name, is not as it was read."""

    def desktops(self, names: Sequence[str] = ()) -> tuple[DesktopRecord, ...]:
        """Desktops that there are, by name: all, or those of these names."""

    def take_desktops(
        self, moves: Sequence[DesktopRecord], pool: PoolRecord | None = None
    ) -> tuple[DesktopRecord, ...]:
        """Write desktops that are as they were read, and leave the others; what was written.

        With ``pool`` nobody gave desktops of it to users meanwhile, nor changed it: otherwise
        StaleGeneration, and nothing is written.
        """

    def pool_sessions(self, pool: str, limit: int, since: float = 0.0) -> tuple[PastSession, ...]:
        """The sessions on desktops of a pool (its id) that are open or ended after ``since`` (Unix
        seconds), the last one first.
        """

    def pool_asks(self) -> tuple[DesktopRequestRecord, ...]:
        """The users that wait for a desktop, the longest first."""

    def ask_desktop(self, ask: DesktopRequestRecord) -> None:
        """Let a user wait; who waits already keeps the place."""

    def end_ask(self, pool: str, user: str) -> bool:
        """Let a user wait no more for a desktop of a pool (its id); did it wait?"""

    def bookings(self) -> tuple[Booking, ...]:
        """Bookings that were not cancelled, by when they begin."""

    def book(self, booking: Booking, tenant: str) -> None:
        """Enter a booking."""

    def logoff_moves(self) -> tuple[LogoffMove, ...]:
        """Moves that wait until a user has logged off, by VM."""

    def await_logoff(self, moves: Sequence[LogoffMove]) -> None:
        """Let moves wait; each takes the place of one of the same VM."""

    def end_logoff_move(self, id_: str, outcome: str) -> bool:
        """Let a move (by its id) wait no more; False where it did not any longer."""

    def cancel_booking(self, booking: str) -> None:
        """Cancel a booking by its id; NotFound where there is none."""

    # Images in versions with their copies. New ones, and copies that come or go, are written with
    # their operation (``Reservation.images``, ``Reservation.copies``).

    def images(self) -> tuple[ImageRecord, ...]:
        """Every image that was ever imported, by name and age."""

    def retire_image(self, image: str) -> None:
        """Use an image (our id) for no new VM; one that is retired stays so."""

    # Between who asks for a connection and who gives it.

    def tickets(self, ids: Collection[str] = ()) -> tuple[ConsoleTicket, ...]:
        """Those that are not closed, the oldest first; of ``ids`` what is closed, too."""

    def ticket_of(self, digest: str) -> ConsoleTicket | None:
        """The ticket of the API whose secret has that digest, closed ones too."""

    def ask_ticket(self, ticket: ConsoleTicket) -> None:
        """Write down that somebody wants to connect."""

    def move_tickets(self, moves: Sequence[TicketMoved]) -> None:
        """Move tickets; StaleGeneration, and nothing is written, where another moved one."""

    # Operations: written before each step and after it.

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

    # Which process works on what. A process that dies holds nothing any more.

    def claim_operation(self, operation_id: str) -> bool:
        """Become its only worker until it ends or waits, or close(); False while another live
        process is. Who reserves an operation is its worker. Once the claim was lost (only a
        server's session can be), record() and reserve() raise ClaimLost.
        """

    def leave_operations(self, until: float) -> None:
        """Leave the open ones that this process works on to the person who interrupted them, until
        then (Unix seconds). They stay claimed.
        """

    def is_worked_on(self, operation_id: str) -> bool:
        """Does a live process, this one included, work on it? Nothing is claimed."""

    def claim(self, name: str) -> bool:
        """Hold any other name (``serve``, ``host:NAME``) until release() or close(); False while
        another live process does.
        """

    def is_claimed(self, name: str) -> bool:
        """Does a live process, this one included, hold that name? Nothing is claimed."""

    def release(self, name: str) -> None:
        """Let go of a name; one that is not held is no error."""

    def within(self, scope: Scope) -> ScopedReads:
        """Reads for somebody who may see the things of these tenants alone: what a front end that
        acts for its users reads by.
        """

    def spoken_epoch(self) -> int:
        """The epoch this process speaks to hosts in: the one it first read, or raised by a
        take-over, or took by :meth:`fresh_epoch`.
        """

    def fresh_epoch(self) -> int:
        """The epoch now, spoken from now on, for who still holds all it claimed; ClaimLost
        otherwise.
        """

    # The ledger itself: its trail, its epoch, and whether it went back in time.

    def fleet_id(self) -> str:
        """This fleet's id, made when the ledger was created."""

    def epoch(self) -> int:
        """The store's epoch; raised at take-over and restore."""

    def raise_epoch(self, at_least: int = 0) -> int:
        """The next epoch, or ``at_least`` where that is higher, spoken from now on as by
        :meth:`fresh_epoch`; returns the new one.
        """

    def audit(
        self,
        *,
        vm: str = "",
        host: str = "",
        operation: str = "",
        event: str = "",
        by: str = "",
        user: str = "",
        tenant: str = "",
        since: float | None = None,
        limit: int | None = None,
    ) -> tuple[AuditRecord, ...]:
        """The trail, newest first; each filter that is set must match (``operation``, ``event``,
        ``by`` and ``user`` by their beginning). What is of a ``user`` or ``tenant`` was done by
        it, or in an operation that it began. ``since`` is Unix seconds.
        """

    def version(self) -> Hashable:
        """Equal as long as nothing is committed, by any process."""

    def supply_version(self) -> Hashable:
        """Equal as long as no host and no GPU offers anything else than it did."""

    def audit_after(self, seq: int, limit: int) -> tuple[AuditRecord, ...]:
        """At most ``limit`` records of the trail after ``seq``, in order."""

    def trail_since(self, after: int | None) -> TrailChanges:
        """The hosts that records of the trail after that number are about; without one, only the
        trail's end. On PostgreSQL a record may become visible after later ones.
        """

    def record_access(self, event: AccessEvent, detail: str = "") -> None:
        """Keep in the trail that the current actor came in, or was refused, and why: 256
        characters of it. Never pass what was shown as proof.
        """

    def record_upload(self, event: UploadEvent, detail: str) -> None:
        """Keep in the trail that the current actor sends a file, or discarded it: 256 characters
        of ``detail``.
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

    def close(self) -> None:
        """Flush and let go."""
