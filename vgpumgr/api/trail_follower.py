"""The trail as it grows: a thread reads new records, everybody who listens hears of them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.json_times import timed

if TYPE_CHECKING:
    from vgpumgr.model.history import AuditRecord
    from vgpumgr.model.ledger import Ledger

BEAT_S = 0.05
"""How often the end of the trail is looked at."""
RETRY_S = 1.0
PAGE = 500
MOST_WAITING = 2000
"""A listener that is further behind, in records, is let go; it comes again with its last id."""
HEARTBEAT_S = 15.0
Record = tuple[int, bytes]


class TrailFollower:
    """Follows one ledger's trail from when it was started."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._listeners: set[asyncio.Queue[Record | None]] = set()
        self._grown = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = 0
        self._closed = threading.Event()

    def start(self) -> None:
        """Begin; called in the event loop that listeners live in."""
        self._loop = asyncio.get_running_loop()
        self._end = self._ledger.trail_since(None).end
        threading.Thread(target=self._follow, name="trail", daemon=True).start()

    def close(self) -> None:
        """End every stream."""
        self._closed.set()
        self._call(self._end_all)

    async def wait(self, timeout_s: float) -> None:
        """Wait until the trail has grown, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._grown.wait()

    async def stream(self, after: int | None) -> AsyncIterator[bytes]:
        """Server-sent events: every record after ``after`` (without it: from now on), each once and
        in order.
        """
        queue: asyncio.Queue[Record | None] = asyncio.Queue(MOST_WAITING)
        self._listeners.add(queue)
        try:
            last = self._end if after is None else after
            yield b": vgpumgr\n\n"
            while last < self._end:
                page = await asyncio.to_thread(self._read, last)
                for seq, event in page:
                    yield event
                    last = seq
                if not page:
                    break
            while True:
                try:
                    record = await asyncio.wait_for(queue.get(), HEARTBEAT_S)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if record is None:
                    return
                if record[0] > last:
                    last = record[0]
                    yield record[1]
        finally:
            self._listeners.discard(queue)

    def _read(self, after: int) -> list[Record]:
        return [(each.seq, as_event(each)) for each in self._ledger.audit_after(after, PAGE)]

    def _follow(self) -> None:
        after = self._end
        while not self._closed.wait(BEAT_S):
            try:
                found = self._read(after)
            except VgpumgrError:  # a ledger that is locked or away: what was missed comes then
                self._closed.wait(RETRY_S)
                continue
            if found:
                after = found[-1][0]
                self._call(partial(self._publish, found))

    def _call(self, work: Callable[[], None]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(work)

    def _publish(self, found: list[Record]) -> None:
        self._end = found[-1][0]
        for queue in list(self._listeners):
            for record in found:
                if queue.full():
                    self._let_go(queue)
                    break
                queue.put_nowait(record)
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def _let_go(self, queue: asyncio.Queue[Record | None]) -> None:
        """Its stream ends after what it has."""
        self._listeners.discard(queue)
        queue.get_nowait()
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)

    def _end_all(self) -> None:
        for queue in list(self._listeners):
            self._let_go_now(queue)

    def _let_go_now(self, queue: asyncio.Queue[Record | None]) -> None:
        self._listeners.discard(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)


def as_event(record: AuditRecord) -> bytes:
    """The record as a server-sent event, its ``seq`` as the id."""
    data = json.dumps(timed(to_plain(record)), separators=(",", ":"))
    return f"id: {record.seq}\nevent: change\ndata: {data}\n\n".encode()
