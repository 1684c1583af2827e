"""The trail as it grows: a thread reads new records, everybody who listens hears of them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from vgpumgr.model.errors import ClaimLost, Conflict, VgpumgrError
from vgpumgr.model.history import record_json
from vgpumgr.model.role_binding import ALL_TENANTS, Scope

if TYPE_CHECKING:
    from vgpumgr.model.history import AuditRecord
    from vgpumgr.model.ledger import Ledger

BEAT_S = 0.05
"""How often the end of the trail is looked at."""
LOOK_S = 1.0
"""How often it is looked whether hosts show something else, of which the trail has no record."""
RETRY_S = 1.0
PAGE = 500
AGAIN = (0, b"")
"""Stands for records that a listener reads itself."""
MOST_WAITING = 2000
"""A listener that is further behind, in records, is let go; it comes again with its last id."""
HEARTBEAT_S = 15.0
Record = tuple[int, bytes]


def _ignored() -> None:
    """No listener."""


class SupplyChange:
    """Whether hosts or GPUs show something else than at the last look; the first one is none."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._looked_at = float("-inf")
        self._committed: Hashable = None
        self._supply: Hashable = None

    def is_new(self) -> bool:
        """Is it, where it is time to look? LedgerError where the ledger is away."""
        if time.monotonic() - self._looked_at < LOOK_S:
            return False
        self._looked_at = time.monotonic()
        if (committed := self._ledger.version()) == self._committed:
            return False
        before, self._supply = self._supply, self._ledger.supply_version()
        self._committed = committed
        return before not in {None, self._supply}


class TrailFollower:
    """Follows one ledger's trail from when it was started."""

    def __init__(self, ledger: Ledger, replaced: Callable[[], None] = _ignored) -> None:
        """``replaced`` is called in the event loop once another ledger is in this one's place."""
        self._ledger = ledger
        self._replaced = replaced
        self._listeners: dict[asyncio.Queue[Record | None], Scope] = {}
        self._grown = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = 0
        self._version = 0
        self._closed = threading.Event()
        self._streams_ended = False

    def start(self) -> None:
        """Begin; called in the event loop that listeners live in."""
        self._loop = asyncio.get_running_loop()
        self._end = self._ledger.trail_since(None).end
        self._raise_version()
        threading.Thread(target=self._follow, name="trail", daemon=True).start()

    def require_reached(self, after: int | None) -> None:
        """Conflict where the trail has never come to ``after``: it is another ledger's."""
        if after and after > self._end and after > (end := self._ledger.trail_since(None).end):
            raise Conflict(
                f"the trail ends at {end}, before {after}",
                why="the number is of another ledger, or of one from before a restore",
                next="begin again: Last-Event-ID: 0",
            )

    def close(self) -> None:
        """End every stream."""
        self._closed.set()
        self._call(self.end_streams)

    @property
    def end(self) -> int:
        """The number of the last record that was seen."""
        return self._end

    @property
    def version(self) -> int:
        """Another number after every change: of the trail, and of what hosts show. No two
        processes have the same one for two states.
        """
        return self._version

    @property
    def streams_ended(self) -> bool:
        """Are there to be no streams any more?"""
        return self._streams_ended

    def end_streams(self) -> None:
        """End every stream, and let none begin; called in the event loop. What else waits for the
        trail goes on.
        """
        self._streams_ended = True
        for queue in list(self._listeners):
            self._let_go_now(queue)
        self._wake()

    async def wait(self, timeout_s: float) -> None:
        """Wait until the version is another one, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._grown.wait()

    async def stream(
        self, after: int | None, scope: Scope = ALL_TENANTS
    ) -> AsyncGenerator[bytes, None]:
        """Server-sent events: every record of the scope after ``after`` (without it: from now on),
        each once and in order.
        """
        if self._streams_ended:
            return
        queue: asyncio.Queue[Record | None] = asyncio.Queue(MOST_WAITING)
        self._listeners[queue] = scope
        queue.put_nowait(AGAIN)
        try:
            last = self._end if after is None else after
            yield b": vgpumgr\n\n"
            while True:
                try:
                    record = await asyncio.wait_for(queue.get(), HEARTBEAT_S)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if record is None:
                    return
                if record is AGAIN:
                    while last < self._end:
                        try:
                            page = await asyncio.to_thread(self._read, last, scope)
                        except VgpumgrError:  # the ledger is away: the next stream has the rest
                            return
                        for seq, event in page:
                            last = seq
                            yield event
                        if not page:
                            break
                elif record[0] > last:
                    last = record[0]
                    yield record[1]
        finally:
            self._listeners.pop(queue, None)

    def _read(self, after: int, scope: Scope = ALL_TENANTS) -> list[Record]:
        reads = self._ledger if scope.is_all else self._ledger.within(scope)
        return [(each.seq, as_event(each)) for each in reads.audit_after(after, PAGE)]

    def _read_for_tenants(self, after: int, end: int) -> dict[Scope, list[Record]]:
        """The records up to ``end`` as each scope that is listened in shows them, read once for
        each; a scope that is not there has too many.
        """
        found = {}
        for scope in {each for each in list(self._listeners.values()) if not each.is_all}:
            page = self._read(after, scope)
            if len(page) < PAGE:
                found[scope] = [each for each in page if each[0] <= end]
        return found

    def _follow(self) -> None:
        after, supply = self._end, SupplyChange(self._ledger)
        while not self._closed.wait(BEAT_S):
            try:
                found = self._read(after)
                end = found[-1][0] if found else after
                own = self._read_for_tenants(after, end) if found else {}
                if supply.is_new():
                    self._call(self._look)
            except ClaimLost:
                self._call(self._replaced)
                return
            except VgpumgrError:  # a ledger that is locked or away: what was missed comes then
                self._closed.wait(RETRY_S)
                continue
            if found:
                after = end
                self._call(partial(self._publish, {ALL_TENANTS: found, **own}, end))

    def _call(self, work: Callable[[], None]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(work)

    def _look(self) -> None:
        """Something is to be looked at, of which there is no record."""
        self._raise_version()
        self._wake()

    def _raise_version(self) -> None:
        self._version = max(self._version + 1, time.time_ns() // 1_000_000)

    def _publish(self, found: dict[Scope, list[Record]], end: int) -> None:
        self._end = end
        self._raise_version()
        for queue, scope in list(self._listeners.items()):
            for record in found.get(scope, [AGAIN]):
                if queue.full():
                    self._let_go(queue)
                    break
                queue.put_nowait(record)
        self._wake()

    def _wake(self) -> None:
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def _let_go(self, queue: asyncio.Queue[Record | None]) -> None:
        """Its stream ends after what it has."""
        self._listeners.pop(queue, None)
        queue.get_nowait()
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)

    def _let_go_now(self, queue: asyncio.Queue[Record | None]) -> None:
        self._listeners.pop(queue, None)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)


def as_event(record: AuditRecord) -> bytes:
    """The record as a server-sent event, its ``seq`` as the id."""
    return f"id: {record.seq}\nevent: change\ndata: {record_json(record)}\n\n".encode()
