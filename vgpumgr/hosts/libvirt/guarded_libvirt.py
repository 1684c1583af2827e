"""The libvirt of a real host: calls under deadlines, long jobs on connections of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from vgpumgr.domainxml import volume_name
from vgpumgr.hosts.deadlines import DEADLINES, Deadline
from vgpumgr.hosts.libvirt.answering_storage import AnsweringStorage
from vgpumgr.hosts.libvirt.libvirt_link import HeldLink, LibvirtLink
from vgpumgr.model.domain import (
    DomainFacts,
    GuestFacts,
    KeptBeside,
    LiveMove,
    MoveProgress,
    Ownership,
    VolumeFacts,
)
from vgpumgr.model.errors import HostRefused, OutcomeUnknown, VgpumgrError
from vgpumgr.model.guest import GuestAnswer, GuestCommand
from vgpumgr.model.host import StoragePool
from vgpumgr.model.ports import Domains, Host
from vgpumgr.virt import Libvirt

GUEST_LOOKS_S = 0.2
"""Between two looks at a program in a guest."""


class GuardedLibvirt:
    """Fulfils ``LibvirtLike`` over two connections, so that a job never blocks a look."""

    def __init__(self, short: LibvirtLink, long: LibvirtLink) -> None:
        self._short = short
        self._long = long
        self.domains = GuardedDomains(short, long)
        self.storage = GuardedStorage(short, long)

    @property
    def changes(self) -> int:
        """How often a change over either connection has begun or ended."""
        return self._short.changes + self._long.changes

    def networks(self) -> tuple[str, ...]:
        """The names of libvirt's networks."""
        return self._short.read(lambda libvirt: libvirt.networks())

    def filters(self) -> tuple[str, ...]:
        """The names of libvirt's network filters."""
        return self._short.read(lambda libvirt: libvirt.filters())

    def versions(self) -> tuple[str, str]:
        """Versions of libvirt and of its hypervisor."""
        return self._short.read(lambda libvirt: libvirt.versions())

    def close(self) -> None:
        """Drop both connections."""
        self._short.close()
        self._long.close()


class GuardedDomains:
    """Fulfils ``ports.Domains``."""

    def __init__(self, short: LibvirtLink, long: LibvirtLink) -> None:
        self._short = short
        self._long = long

    def list(self) -> tuple[DomainFacts, ...]:
        """Every domain."""
        return self._short.read(lambda libvirt: libvirt.domains.list())

    def look(self, name: str) -> DomainFacts | None:
        """One domain, or None."""
        return self._short.read(lambda libvirt: libvirt.domains.look(name))

    def xml(self, name: str) -> str:
        """Its inactive XML."""
        return self._short.read(lambda libvirt: libvirt.domains.xml(name))

    def define(self, xml: str) -> str:
        """Define and read back."""
        return self._short.change(lambda libvirt: libvirt.domains.define(xml))

    def start(self, name: str) -> None:
        """Start; long: with a whole GPU, all of the guest's memory is pinned first."""
        self._long.change(lambda libvirt: libvirt.domains.start(name))

    def shutdown(self, name: str) -> None:
        """Ask the guest to power off."""
        self._short.change(lambda libvirt: libvirt.domains.shutdown(name))

    def reboot(self, name: str) -> None:
        """Ask the guest to reboot."""
        self._short.change(lambda libvirt: libvirt.domains.reboot(name))

    def destroy(self, name: str) -> None:
        """Power off; long: QEMU may take a while to let go of memory and devices."""
        self._long.change(lambda libvirt: libvirt.domains.destroy(name))

    def undefine(self, name: str, *, keep_tpm: bool = False) -> None:
        """Forget it."""
        self._short.change(lambda libvirt: libvirt.domains.undefine(name, keep_tpm=keep_tpm))

    def set_autostart(self, name: str, on: bool) -> None:
        """Start with the host, or not."""
        self._short.change(lambda libvirt: libvirt.domains.set_autostart(name, on))

    def live_xml(self, name: str) -> str:
        """The running domain's XML as a target has to take it over."""
        return self._short.read(lambda libvirt: libvirt.domains.live_xml(name))

    def set_ownership(self, name: str, mark: Ownership | None) -> None:
        """Put our mark into its metadata, or take it out."""
        self._short.change(lambda libvirt: libvirt.domains.set_ownership(name, mark))

    def kept_beside(self, name: str) -> KeptBeside:
        """Snapshots and saved memory."""
        return self._short.read(lambda libvirt: libvirt.domains.kept_beside(name))

    def cpu_fits(self, xml: str) -> bool | None:
        """Can a guest with that CPU run here?"""
        return self._short.read(lambda libvirt: libvirt.domains.cpu_fits(xml))

    def migrate(self, move: LiveMove, target: Host) -> None:
        """Move a running domain; it takes as long as it moves."""
        peer = target.domains
        if not isinstance(peer, GuardedDomains):
            raise _no_peer(target)
        TwoHostJobs(self._long, peer._long).migrate(move, self)

    def cancel_migration(self, name: str) -> None:
        """End a move that is under way."""
        self._short.change(lambda libvirt: libvirt.domains.cancel_migration(name))

    def migration_progress(self, name: str) -> MoveProgress | None:
        """How far the move is."""
        return self._short.read(lambda libvirt: libvirt.domains.migration_progress(name))

    def resume(self, name: str) -> None:
        """Let a paused domain go on."""
        self._short.change(lambda libvirt: libvirt.domains.resume(name))

    def guest(self, name: str) -> GuestFacts | None:
        """What its agent tells."""
        return self._short.read(lambda libvirt: libvirt.domains.guest(name))

    def run_in_guest(self, name: str, command: GuestCommand) -> GuestAnswer | None:
        """Have its agent run a program. The connection is free for others between the looks."""
        begun = self._short.change(
            lambda libvirt: libvirt.domains.begin_in_guest(name, command.run)
        )
        if not isinstance(begun, int):
            return begun
        number, until = begun, time.monotonic() + command.timeout_s
        while True:
            ended = self._short.read(
                lambda libvirt: libvirt.domains.end_in_guest(name, number, command.most_bytes)
            )
            if ended is not None:
                return ended
            if time.monotonic() >= until:
                return GuestAnswer(status=None)
            time.sleep(GUEST_LOOKS_S)

    def switch_disks(self, name: str, files: Mapping[str, str], *, freeze: bool) -> None:
        """Change over its disks; long: a guest may take a while to freeze its file systems."""
        self._long.change(lambda libvirt: libvirt.domains.switch_disks(name, files, freeze=freeze))

    def thaw(self, name: str) -> None:
        """Let a frozen guest write again."""
        self._short.change(lambda libvirt: libvirt.domains.thaw(name))

    def define_filter(self, name: str, xml: str) -> None:
        """Have libvirt know a network filter."""
        self._short.change(lambda libvirt: libvirt.domains.define_filter(name, xml))

    def drop_filter(self, name: str) -> None:
        """Forget a network filter."""
        self._short.change(lambda libvirt: libvirt.domains.drop_filter(name))

    def grow_disk(self, name: str, disk: str, capacity_bytes: int) -> None:
        """Make a running domain's disk larger."""
        self._short.change(lambda libvirt: libvirt.domains.grow_disk(name, disk, capacity_bytes))

    def disk_bytes(self, name: str, disk: str) -> int:
        """How many bytes its guest sees of it."""
        return self._short.read(lambda libvirt: libvirt.domains.disk_bytes(name, disk))

    def attach_disk(self, name: str, xml: str) -> None:
        """Have a running domain see one disk more."""
        self._short.change(lambda libvirt: libvirt.domains.attach_disk(name, xml))

    def detach_disk(self, name: str, disk: str) -> None:
        """Have a running domain let go of a disk."""
        self._short.change(lambda libvirt: libvirt.domains.detach_disk(name, disk))

    def pull_disk(self, name: str, disk: str, below: str) -> None:
        """Begin to leave out a file below its disk."""
        self._short.change(lambda libvirt: libvirt.domains.pull_disk(name, disk, below))

    def pull_progress(self, name: str, disk: str) -> MoveProgress | None:
        """How far that is."""
        return self._short.read(lambda libvirt: libvirt.domains.pull_progress(name, disk))

    def cancel_pull(self, name: str, disk: str) -> None:
        """End it."""
        self._short.change(lambda libvirt: libvirt.domains.cancel_pull(name, disk))

    def begin_backup(
        self,
        name: str,
        files: Mapping[str, str],
        *,
        freeze: bool,
        checkpoint: str = "",
        since: str = "",
    ) -> None:
        """Begin to copy its disks; long: a guest may take a while to freeze its file systems."""
        self._long.change(
            lambda libvirt: libvirt.domains.begin_backup(
                name, files, freeze=freeze, checkpoint=checkpoint, since=since
            )
        )

    def checkpoints(self, name: str) -> frozenset[str]:
        """Since when it remembers what is written."""
        return self._short.read(lambda libvirt: libvirt.domains.checkpoints(name))

    def forget_checkpoint(self, name: str, checkpoint: str) -> None:
        """Remember that no longer."""
        self._short.change(lambda libvirt: libvirt.domains.forget_checkpoint(name, checkpoint))

    def backup_progress(self, name: str) -> MoveProgress | None:
        """How far that is."""
        return self._short.read(lambda libvirt: libvirt.domains.backup_progress(name))

    def cancel_backup(self, name: str, files: Mapping[str, str]) -> None:
        """End it."""
        self._short.change(lambda libvirt: libvirt.domains.cancel_backup(name, files))


class GuardedStorage:
    """Fulfils ``ports.Storage``."""

    def __init__(self, short: LibvirtLink, long: LibvirtLink) -> None:
        self._short = short
        self._long = long

    def pools(self, only: Collection[str] | None = None) -> tuple[StoragePool, ...]:
        """Every storage pool, or those of these names."""
        return self._short.read(lambda libvirt: libvirt.storage.pools(only))

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        """One volume, or None."""
        return self._short.read(lambda libvirt: libvirt.storage.look(pool, volume))

    def create(
        self, pool: str, xml: str, *, copy_from: str | None = None, from_pool: str = ""
    ) -> VolumeFacts:
        """Create a volume; a copy takes as long as its file grows."""
        if copy_from is None:
            return self._short.change(lambda libvirt: libvirt.storage.create(pool, xml))

        def copied(libvirt: Libvirt, moved: Callable[[], None]) -> VolumeFacts:
            with watched(lambda: self._grown(pool, name), moved):
                return libvirt.storage.create(pool, xml, copy_from=copy_from, from_pool=from_pool)

        name = volume_name(xml)
        return self._long.long_change(copied)

    def _grown(self, pool: str, volume: str) -> int:
        return self._short.read(lambda libvirt: libvirt.storage.allocation(pool, volume))

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        """Write into a volume."""
        self._long.change(lambda libvirt: libvirt.storage.upload(pool, volume, data))

    def read(self, pool: str, volume: str, most_bytes: int) -> bytes:
        """A volume's file, cut off."""
        return self._short.read(lambda libvirt: libvirt.storage.read(pool, volume, most_bytes))

    def volumes(self, pool: str) -> tuple[VolumeFacts, ...]:
        """Every volume of a pool."""
        return self._short.read(lambda libvirt: libvirt.storage.volumes(pool))

    def fill(self, pool: str, volume: str, length: int, pieces: Iterable[bytes | int]) -> None:
        """Write a volume's whole file; it takes as long as it moves."""

        def filled(libvirt: Libvirt, moved: Callable[[], None]) -> None:
            libvirt.storage.fill(pool, volume, length, _told(pieces, moved))

        self._long.long_change(filled)

    def grow(self, pool: str, volume: str, capacity_bytes: int) -> None:
        """Make a volume larger."""
        self._short.change(lambda libvirt: libvirt.storage.grow(pool, volume, capacity_bytes))

    def delete(self, pool: str, volume: str) -> None:
        """Delete a volume."""
        self._short.change(lambda libvirt: libvirt.storage.delete(pool, volume))

    def xml(self, pool: str, volume: str) -> str:
        """The volume's XML."""
        return self._short.read(lambda libvirt: libvirt.storage.xml(pool, volume))

    def copy_to(self, pool: str, volume: str, target: Host, seen: Callable[[int], None]) -> None:
        """Copy a volume's file; it takes as long as it moves."""
        peer = target.storage
        if isinstance(peer, AnsweringStorage):
            peer = peer.answering(pool)
        if not isinstance(peer, GuardedStorage):
            raise _no_peer(target)
        TwoHostJobs(self._long, peer._long).copy(pool, volume, seen)


def _told(pieces: Iterable[bytes | int], moved: Callable[[], None]) -> Iterator[bytes | int]:
    for piece in pieces:
        moved()
        yield piece


def _no_peer(target: Host) -> HostRefused:
    return HostRefused(
        f"nothing goes from a real host to {target.name}", why=f"{target.name} is simulated"
    )


_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class TwoHostJobs:
    """The long links of the host that a job starts from, and of the one it leads to."""

    source: LibvirtLink
    target: LibvirtLink

    def migrate(self, move: LiveMove, beside: Domains) -> None:
        """Move a domain; ``beside`` looks at the move, and cancels it where it stalls."""
        ended = threading.Event()
        with self._held() as (here, there):

            def cut() -> None:
                with suppress(VgpumgrError):
                    beside.cancel_migration(move.name)
                if not ended.wait(self.source.call_s):
                    _cut(here, there)

            with (
                self._alive(f"the move of {move.name}", cut) as deadline,
                watched(lambda: beside.migration_progress(move.name), deadline.moved),
            ):
                try:
                    here.libvirt.domains.migrate(move, there.libvirt.domains)
                finally:
                    ended.set()

    def copy(self, pool: str, volume: str, seen: Callable[[int], None]) -> None:
        """Copy a volume's file into its namesake's."""
        with self._held() as (here, there):
            doing = f"the copy of volume {pool}/{volume}"
            with self._alive(doing, lambda: _cut(here, there)) as deadline:

                def heard(done: int) -> None:
                    deadline.moved()
                    seen(done)

                here.libvirt.storage.copy_to(pool, volume, there.libvirt.storage, heard)

    @contextmanager
    def _held(self) -> Iterator[tuple[HeldLink, HeldLink]]:
        """Both connections, taken by host name, so that opposite jobs never wait for each other."""
        if self.source.host == self.target.host:
            raise HostRefused(f"{self.source.host} is both ends of the job")
        with ExitStack() as stack:
            links = sorted((self.source, self.target), key=lambda each: each.host)
            taken = {each.host: stack.enter_context(each.held()) for each in links}
            yield taken[self.source.host], taken[self.target.host]

    @contextmanager
    def _alive(self, doing: str, cut: Callable[[], None]) -> Iterator[Deadline]:
        """``cut`` comes when nothing has moved for as long as any other long job may take."""
        with DEADLINES.within(self.source.call_s, cut) as deadline:
            try:
                yield deadline
            except VgpumgrError as error:
                if not deadline.fired:
                    raise
                kind = HostRefused if isinstance(error, HostRefused) else OutcomeUnknown
                raise kind(
                    f"{doing} from {self.source.host} to {self.target.host} was aborted",
                    why=f"nothing moved for {self.source.call_s:g} s; {error.why}",
                    next=f"on {self.target.host}: systemctl status libvirtd, and its network",
                ) from error


def _cut(source: HeldLink, target: HeldLink) -> None:
    """The source first: libvirt's client lets the guest go on there when it does not hear from the
    target any more, whether it has been started on the target by then or not.
    """
    source.cut()
    target.cut()


@contextmanager
def watched(look: Callable[[], object], moved: Callable[[], None]) -> Iterator[None]:
    """Call ``moved`` when ``look`` sees another thing than before; a failed look sees none."""
    ended = threading.Event()

    def watch() -> None:
        last: object = None
        while not ended.wait(_POLL_S):
            with suppress(VgpumgrError):
                now = look()
                if now != last:
                    moved()
                last = now

    thread = threading.Thread(target=watch, name="vgpumgr-move", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
