"""Jobs between two hosts (migration, volume copies) over two long connections, both watched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from vgpumgr.hosts.deadlines import DEADLINES, Deadline
from vgpumgr.hosts.libvirt.libvirt_link import HeldLink, LibvirtLink
from vgpumgr.model.domain import LiveMove
from vgpumgr.model.errors import HostRefused, OutcomeUnknown, VgpumgrError
from vgpumgr.model.ports import Domains

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
                _watched(lambda: beside.migration_progress(move.name), deadline),
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
        """Both connections. In the order of names: two opposite jobs never wait for each other."""
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
def _watched(look: Callable[[], object], deadline: Deadline) -> Iterator[None]:
    """Move the deadline when ``look`` sees another thing than before; a failed look sees none."""
    ended = threading.Event()

    def watch() -> None:
        last: object = None
        while not ended.wait(_POLL_S):
            with suppress(VgpumgrError):
                now = look()
                if now != last:
                    deadline.moved()
                last = now

    thread = threading.Thread(target=watch, name="vgpumgr-move", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
