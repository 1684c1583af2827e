"""Protocols that outer rooms fulfil: hosts, libvirt, fencing, consoles, executor, clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from vgpumgr.model.console_ticket import ConsoleKind

if TYPE_CHECKING:
    from vgpumgr.model.console_ticket import ConsoleProxyState
    from vgpumgr.model.domain import (
        DomainFacts,
        GuestFacts,
        KeptBeside,
        LiveMove,
        MoveProgress,
        Ownership,
        VolumeFacts,
    )
    from vgpumgr.model.gpu_figures import HostFigures
    from vgpumgr.model.guest import GuestAnswer, GuestCommand
from vgpumgr.model.host import HostFacts, HostRecord, Installed, Proof, StoragePool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLimits:
    """Limits in seconds, from when a host was asked.

    A host that is one of many is waited for ``least_s``, or ``times`` the slowest answer so far
    where that is longer; ``doubted_s`` more than that answer where its last look failed. A look
    (``look_s``) and work (``work_s``) that shows no life for so long is given up: by then every
    host call was cut by a deadline of its own.
    """

    least_s: float = 5.0
    times: float = 3.0
    doubted_s: float = 2.0
    look_s: float = 300.0
    work_s: float = 900.0


WAIT_LIMITS = WaitLimits()


class Clock(Protocol):
    """Wall time for records, monotonic time for deadlines."""

    def now(self) -> float:
        """Unix time in seconds."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def wait(self, seconds: float) -> None:
        """Pause between two polls."""


class Stream(Protocol):
    """A connection. One thread may send while another receives."""

    def recv(self, size: int) -> bytes:
        """Some bytes; none at the end. OSError when broken."""

    def sendall(self, data: bytes) -> None:
        """All bytes. OSError when broken."""

    def close(self) -> None:
        """Let go; a blocked recv returns. A second time does nothing."""


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

    def undefine(self, name: str, *, keep_tpm: bool = False) -> None:
        """Forget it, its NVRAM included; an absent domain is no error. With ``keep_tpm`` the state
        of its TPM stays for the next domain of its UUID.
        """

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

    def run_in_guest(self, name: str, command: GuestCommand) -> GuestAnswer | None:
        """Have the agent in the guest run a program, and wait for its end as long as the command
        says; None as above. A program that is not there ends with 127. HostRefused: the agent
        runs none.
        """

    def switch_disks(self, name: str, files: Mapping[str, str], *, freeze: bool) -> None:
        """Have a running domain go on in other qcow2 files, by its disks' targets (``vda``): all at
        one moment, each laid over the file that was written to before. With ``freeze`` the guest's
        agent sees to it that its file systems are whole. HostRefused: it is off, no agent answers,
        or a file is not there; nothing is changed then.
        """

    def thaw(self, name: str) -> None:
        """Let a guest write again that was frozen by a call that was cut; no agent, no error."""

    def attach_disk(self, name: str, xml: str) -> None:
        """Have a running domain see one disk more, until it is off; its definition stays as it is.
        One of that target that is there already is no error. HostRefused: it is off, or QEMU
        cannot open it.
        """

    def detach_disk(self, name: str, disk: str) -> None:
        """Ask a running domain's guest to let go of a disk (``vdz``), and take it away; none is no
        error. A guest may take its time: look at :meth:`live_xml`. HostRefused: it is off.
        """

    def pull_disk(self, name: str, disk: str, below: str) -> None:
        """Begin to have a running domain's disk (``vda``) read as before over ``below`` alone
        (empty: over nothing), whatever is between; one under way is no error. HostRefused: it is
        off, or its disk is not laid over that.
        """

    def pull_progress(self, name: str, disk: str) -> MoveProgress | None:
        """How far that is; None when none is under way."""

    def cancel_pull(self, name: str, disk: str) -> None:
        """End it: the disk reads as before. None under way is no error."""

    def define_filter(self, name: str, xml: str) -> None:
        """Have libvirt know a network filter; one of that name that is there stays as it is."""

    def drop_filter(self, name: str) -> None:
        """Forget a network filter; none is no error. Never one that a domain may name."""

    def grow_disk(self, name: str, disk: str, capacity_bytes: int) -> None:
        """Make a running domain's disk (``vda``) as large as that, which its guest sees at once.
        HostRefused: it is off, its disk is larger, or what it lies on is smaller and QEMU cannot
        grow that.
        """

    def disk_bytes(self, name: str, disk: str) -> int:
        """How many bytes the guest of a running domain sees of its disk."""

    def begin_backup(
        self,
        name: str,
        files: Mapping[str, str],
        *,
        freeze: bool,
        checkpoint: str = "",
        since: str = "",
    ) -> None:
        """Begin to copy what a running domain's disks hold at this moment, by their targets
        (``vda``), into empty qcow2 files that are there, of the same size. The guest goes on; with
        ``freeze`` its agent sees to it that its file systems are whole at that moment. What is
        written after it is remembered as ``checkpoint``, where that is given; with ``since``, an
        earlier one, only what was written after that is copied. HostRefused: it is off, no agent
        answers, or it knows no such job; nothing is begun then.
        """

    def checkpoints(self, name: str) -> frozenset[str]:
        """The moments of earlier backups since which a domain remembers what is written."""

    def forget_checkpoint(self, name: str, checkpoint: str) -> None:
        """Remember that no longer; none of that name, or a domain that is off, is no error."""

    def backup_progress(self, name: str) -> MoveProgress | None:
        """How far the copy is; None when it has ended and is whole. HostRefused: it failed, or
        the host knows of none.
        """

    def cancel_backup(self, name: str, files: Mapping[str, str]) -> None:
        """End the copy into these files, which are half a copy then. None under way, or another
        one, is no error.
        """


class Storage(Protocol):
    """libvirt by intent: storage pools and volumes of one host."""

    def pools(self, only: Collection[str] | None = None) -> tuple[StoragePool, ...]:
        """Every storage pool; with ``only`` those of these names that there are, each asked for by
        itself, so that one that hangs matters to no other.
        """

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None when the pool surely has none of that name."""

    def create(
        self, pool: str, xml: str, *, copy_from: str | None = None, from_pool: str = ""
    ) -> VolumeFacts:
        """Create a volume from XML; with ``copy_from`` its data comes from that volume, of another
        pool where one is named: what that is laid over is in the copy itself.
        """

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Write ``data`` (a cloud-init seed: at most a few MiB) into the volume."""

    def read(self, pool: str, volume: str, most_bytes: int) -> bytes:
        """The file behind a volume, cut off after ``most_bytes``."""

    def volumes(self, pool: str) -> tuple[VolumeFacts, ...]:
        """Every volume of a pool, those included that came by other ways."""

    def fill(self, pool: str, volume: str, length: int, pieces: Iterable[bytes | int]) -> None:
        """Write the whole file of a raw volume that was just made with ``length`` bytes, piece by
        piece: data, or the length of a hole. What the pieces raise ends it, half done.
        """

    def grow(self, pool: str, volume: str, capacity_bytes: int) -> None:
        """Make a volume that no domain uses as large as that; one that is so already is no error,
        and none gets smaller.
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

    def console(self, domain: str, vm_id: str, kind: ConsoleKind = ConsoleKind.SCREEN) -> Stream:
        """A connection of its own to the VNC server, or the serial console, of a running domain
        that is ours: it lasts until either end closes it. HostRefused: it is off, or has none.
        """

    def probe(self) -> HostFacts:
        """Read everything once. HostUnreachable when nothing could be read at all."""

    def figures(self) -> HostFigures:
        """What its GPUs measure now, in one call of the helper."""

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


class ConsoleProxy(Protocol):
    """A place on this machine where one viewer, who knows the password, is joined to a console."""

    @property
    def address(self) -> str:
        """Where viewers connect: ``127.0.0.1:40123``."""

    @property
    def answer(self) -> str:
        """Our public key: with his own the asker makes the password of it."""

    def look(self) -> ConsoleProxyState:
        """How it stands; never waits."""

    def close(self) -> None:
        """Let nobody in any more, and part who is joined."""


class ConsoleProxies(Protocol):
    """Makes doors."""

    def open(self, console: Stream, key: str, uids: Collection[int] = ()) -> ConsoleProxy:
        """A door to a console, which is the door's from now on, for the holder of ``key``; where it
        cannot be made the console is closed. Only programs of ``uids`` (none: our own) and of root
        are let in.

        HostRefused where no VNC server is behind it, or one that wants a password of its own.
        """


T = TypeVar("T")
K = TypeVar("K")
K_co = TypeVar("K_co", covariant=True)


class WaitPolicy(Protocol):
    """For how long hosts that were asked side by side are waited for."""

    def insists_on(self, host: str) -> bool:
        """Is it asked again, though it still hangs from an earlier look?"""

    def more_s(self, took: Mapping[str, float], silent: Mapping[str, float]) -> float:
        """How many more seconds to wait, 0 or less for none. ``took``: what each host took that
        answered; ``silent``: for how long each of the others has said nothing, those left out
        that failed.
        """


class PendingAnswers(Protocol[K_co]):
    """Looks at several hosts under way, side by side; nothing is begun before the first wait."""

    @property
    def answers(self) -> Mapping[str, K_co | Exception]:
        """What is known of each host by now."""

    def wait(self, waiting: WaitPolicy) -> Mapping[str, float]:
        """Wait so long; the hosts that have not answered, with the seconds for which they were
        silent. Their answers count if somebody waits once more.
        """

    def leave(self) -> None:
        """End the wait: late answers are dropped."""


class HostExecutor(Protocol):
    """Runs work of different hosts side by side, work of one host in order."""

    def run(
        self, work: Mapping[str, Callable[[], T]], within_s: float | None = WAIT_LIMITS.look_s
    ) -> dict[str, T | Exception]:
        """Run one callable per host name; an exception becomes that host's value.

        One that has not returned after ``within_s`` is left alone, with DeadlineExceeded as its
        value. None is for work that changes hosts: it has deadlines of its own, and must be seen
        to its end.
        """

    def look(
        self, work: Mapping[str, Callable[[], T]], keep: Callable[[str, T], K]
    ) -> PendingAnswers[K]:
        """Looks whose answers go through ``keep``, one after the other, in the thread that waits:
        what nobody waits for is never kept.
        """
