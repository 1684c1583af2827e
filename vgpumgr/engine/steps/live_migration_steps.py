"""The live migration of a running domain, watched beside libvirt's call, and the remains of a
cut attempt.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar

from vgpumgr import domainxml, gpu
from vgpumgr.engine.steps.domain_steps import find_ours
from vgpumgr.engine.steps.filter_steps import make_filters
from vgpumgr.engine.steps.move_steps import NotInTime, both_run
from vgpumgr.engine.steps.step import TOLD_EVERY, StepSurroundings, TwoHostStep, UndoNotPossible
from vgpumgr.model.actor import carried
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import (
    OFF,
    DomainFacts,
    DomainState,
    LiveMove,
    MigrationAddress,
    MoveProgress,
    NumaSeat,
    Ownership,
)
from vgpumgr.model.errors import (
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    Interrupted,
    OutcomeUnknown,
    VgpumgrError,
)
from vgpumgr.model.formats import size_words
from vgpumgr.model.operation import Differs, InState, Observed, Unknown
from vgpumgr.model.ports import Host

POLL_S = 1.0


@dataclass(slots=True)
class MigrationWatch:
    """Tells how far a move is, and cancels it when it must end."""

    name: str
    source: Host
    around: StepSurroundings
    timeout_s: float | None
    began: float
    told_bytes: int = -1
    late: bool = False

    def run(self, ended: threading.Event) -> None:
        """Until the move has ended."""
        while not ended.wait(POLL_S):
            with suppress(VgpumgrError):  # a look that fails says nothing about the move
                self._look()

    def why(self, error: VgpumgrError) -> VgpumgrError:
        """The host's refusal, unless this process ended the move."""
        if self.around.stop.is_set():
            return Interrupted(
                f"the move of {self.name} was cancelled: it runs on the source as before"
            )
        if self.late:
            return NotInTime(
                f"{self.name} did not move in {self.timeout_s:g} s",
                why="its memory changes faster than it is transferred; "
                "it runs on the source as before",
                next="the same command with a longer --timeout, or with --cold",
            )
        return error

    def _look(self) -> None:
        took = self.around.clock.monotonic() - self.began
        self.late = self.timeout_s is not None and took >= self.timeout_s
        if self.around.stop.is_set() or self.late:
            self.source.domains.cancel_migration(self.name)
        progress = self.source.domains.migration_progress(self.name)
        if progress is not None:
            self._tell(progress)

    def _tell(self, progress: MoveProgress) -> None:
        left, total = progress.left_bytes, progress.total_bytes
        if self.told_bytes < 0 or abs(self.told_bytes - left) >= total * TOLD_EVERY:
            self.told_bytes = left
            words = f"{size_words(left)} of {size_words(total)} left"
            self.around.tell(f"move domain {self.name}: {words}")


@contextmanager
def watched(
    name: str, source: Host, around: StepSurroundings, timeout_s: float | None
) -> Iterator[MigrationWatch]:
    """Watch the move of a domain off its host until the block ends."""
    watch = MigrationWatch(name, source, around, timeout_s, began=around.clock.monotonic())
    ended = threading.Event()
    thread = threading.Thread(target=carried(watch.run), args=(ended,), name="move", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class MoveDomain(TwoHostStep):
    """Move the running domain; afterwards it runs on the target, and is off on the source.

    ``devices`` maps its host devices to the devices made for it on the target, ``files`` the paths
    of its disks; ``copied`` are the targets (``vda``) of disks whose data is copied.
    ``allocations`` are the target's. ``timeout_s`` None: as long as it takes.
    """

    settles: ClassVar[bool] = True

    name: str
    vm_id: str
    to: MigrationAddress
    persistent_xml: str
    devices: Mapping[str, str]
    files: Mapping[str, str]
    ownership: Ownership
    allocations: tuple[Allocation, ...] = ()
    copied: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    seat: NumaSeat | None = None
    timeout_s: float | None = None

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"move domain {self.name}"

    def look(self, source: Host, target: Host) -> Observed:
        """Does it run there and no longer here?"""
        here, there = (find_ours(host, self.name, self.vm_id) for host in (source, target))
        if here is None and there is None:
            return Unknown(f"{self.name} is defined neither on {source.name} nor on {target.name}")
        for host in (source, target):
            if host.domains.migration_progress(self.name) is not None:
                return Unknown(f"the move of {self.name} is still under way on {host.name}")
        if _runs(here) and _runs(there):
            return both_run(self.name, source, target)
        if _has_come(there) and not _runs(here):
            return InState()
        if there is not None and there.persistent:
            return Unknown(_may_run_soon(there, target))
        return Differs(f"it is {here.state if here else 'gone'} on {source.name}")

    def renew(self, source: Host, target: Host) -> None:
        """Back to a domain that runs here, and devices there that no attempt has touched.

        A device that took part in a move is left as a receiver (mtty: RESUMING), and the next
        attempt with it fails.
        """
        self.undo(source, target)
        for allocation in self.allocations:
            framework = gpu.framework(allocation.framework)
            framework.release(target.helper, allocation)
            framework.realise(target.helper, allocation)

    def act(self, source: Host, target: Host, around: StepSurroundings) -> None:
        """Move it, telling how far it is; Interrupted and NotInTime leave it running here."""
        find_ours(source, self.name, self.vm_id)
        make_filters(target, self.persistent_xml)
        move = LiveMove(
            name=self.name,
            live_xml=self._moved(source.domains.live_xml(self.name)),
            persistent_xml=self.persistent_xml,
            to=self.to,
            copied=self.copied,
        )
        with watched(self.name, source, around, self.timeout_s) as watch:
            try:
                source.domains.migrate(move, target)
            except (HostUnreachable, DeadlineExceeded, OutcomeUnknown):
                raise
            except VgpumgrError as error:
                raise watch.why(error) from error
        seen = self.look(source, target)
        if not isinstance(seen, InState):
            raise HostRefused(
                f"domain {self.name} was moved and does not run on {target.name}",
                why=seen.what if isinstance(seen, Differs) else seen.why,
                next=f"look at /var/log/libvirt/qemu/{self.name}.log on {target.name}",
            )

    def undo(self, source: Host, target: Host) -> None:
        """End a move that is under way, drop its receiver, and let the domain go on here."""
        source.domains.cancel_migration(self.name)
        there = find_ours(target, self.name, self.vm_id)
        if _has_come(there):
            raise UndoNotPossible(f"{self.name} is on {target.name} already")
        if there is not None and there.persistent:
            raise OutcomeUnknown(
                f"cannot tell whether {self.name} has moved",
                why=_may_run_soon(there, target),
                next=f"the same command again; if that persists, check on {target.name}: "
                f"virsh domstate --reason {self.name}",
            )
        if there is not None:
            target.domains.destroy(there.uuid)
            target.domains.undefine(there.uuid)
        here = find_ours(source, self.name, self.vm_id)
        if here is not None and here.state is DomainState.PAUSED:
            source.domains.resume(self.name)

    def _moved(self, xml: str) -> str:
        return domainxml.moved(
            xml,
            devices=self.devices,
            files=self.files,
            ownership=self.ownership,
            cpus=self.cpus,
            seat=self.seat,
        )


def _runs(found: DomainFacts | None) -> bool:
    return found is not None and found.state is DomainState.RUNNING


def _has_come(found: DomainFacts | None) -> bool:
    """A receiver is paused and not kept; what runs, or is kept and off since, has come."""
    return found is not None and (_runs(found) or (found.persistent and found.state in OFF))


def _may_run_soon(there: DomainFacts, target: Host) -> str:
    """libvirt keeps a domain that has come before it lets it run."""
    return f"{there.name} is {there.state} on {target.name} and may run there soon"
