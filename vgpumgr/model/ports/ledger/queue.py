"""What the ledger knows of VMs that wait for room."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from vgpumgr.model.queued import QueueEntry, QueueMoved


class Queue(Protocol):
    """Who waits for room, who runs on it, and who has ended. ``reserve`` moves entries, too."""

    def queue(self, names: Collection[str] = ()) -> tuple[QueueEntry, ...]:
        """What waits or runs, those first that have waited longest; of ``names`` what is closed,
        too.
        """

    def enqueue(self, entries: Sequence[QueueEntry]) -> None:
        """Let VMs wait; StaleGeneration, and nothing is written, where one is in the queue."""

    def move_queue(self, moves: Sequence[QueueMoved]) -> None:
        """Move entries; StaleGeneration, and nothing is written, where another moved one."""

    def cancel_queued(self, names: Sequence[str]) -> None:
        """Close what waits; NotFound for what is not there, Conflict for what runs: all or none."""
