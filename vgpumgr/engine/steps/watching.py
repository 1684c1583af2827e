"""A live move looked at from beside it, while another thread waits for its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from vgpumgr.engine.steps.base import TOLD_EVERY, Around
from vgpumgr.engine.steps.leaving import NotInTime
from vgpumgr.model.errors import Interrupted, VgpumgrError
from vgpumgr.model.migration import MoveProgress
from vgpumgr.model.ports import Host
from vgpumgr.model.size import size_words

POLL_S = 1.0


@dataclass(slots=True)
class Watch:
    """Tells how far a move is, and cancels it when it must end."""

    name: str
    source: Host
    around: Around
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
        """The host's refusal, unless it was we who ended the move."""
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
def watched(name: str, source: Host, around: Around, timeout_s: float | None) -> Iterator[Watch]:
    """Watch the move of a domain off its host until the block ends."""
    watch = Watch(name, source, around, timeout_s, began=around.clock.monotonic())
    ended = threading.Event()
    thread = threading.Thread(target=watch.run, args=(ended,), name="move", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()
