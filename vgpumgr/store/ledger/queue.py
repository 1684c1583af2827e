"""The queue in the ledger; each method is one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpumgr.model.queued import QueueEntry, QueueMoved
from vgpumgr.store import hints, queue
from vgpumgr.store.ledger.session import Session
from vgpumgr.store.retry import retried


class Queue(Session):
    """Who waits for room, who runs on it, and who has ended."""

    def queue(self, names: Collection[str] = ()) -> tuple[QueueEntry, ...]:
        """What waits or runs, those first that have waited longest; of ``names`` what is closed,
        too.
        """
        with self._database.read() as connection:
            return queue.list_queue(connection, names)

    @retried
    def enqueue(self, entries: Sequence[QueueEntry]) -> None:
        """Let VMs wait; StaleGeneration, and nothing is written, where one is in the queue."""
        with self._database.write() as connection:
            queue.enter(connection, entries, self._stamp())
            hints.tell(connection)

    @retried
    def move_queue(self, moves: Sequence[QueueMoved]) -> None:
        """Move entries; StaleGeneration, and nothing is written, where another moved one."""
        with self._database.write() as connection:
            queue.move(connection, moves, self._stamp())

    @retried
    def cancel_queued(self, names: Sequence[str]) -> None:
        """Close what waits; NotFound or Conflict, and nothing is written, where one does not."""
        with self._database.write() as connection:
            queue.cancel(connection, names, self._stamp())
