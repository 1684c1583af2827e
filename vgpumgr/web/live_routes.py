"""Pages hear when something has changed: server-sent events, which do not say what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from anyio import to_thread
from fastapi import FastAPI, Header, Request
from fastapi.responses import Response, StreamingResponse

from vgpumgr.api.service import Service
from vgpumgr.api.trail_follower import HEARTBEAT_S
from vgpumgr.model.errors import VgpumgrError

AT_MOST_EVERY_S = 1.0
"""Changes that come faster are told of together."""
ALIVE = b"event: alive\ndata:\n\n"
STREAM_HEADERS = {"X-Accel-Buffering": "no"}


def add_live(site: FastAPI, service: Service) -> None:
    """Add the stream. A page was read at ``after``; a listener that comes back says what it has
    heard last. Where there is more, it is told at once.
    """

    @site.get("/live", include_in_schema=False)
    async def live(
        request: Request, after: int = 0, last_event_id: Annotated[int, Header(ge=0)] = 0
    ) -> Response:
        await to_thread.run_sync(service.known, request)
        events = _changes(service, request, last_event_id or after)
        return StreamingResponse(events, media_type="text/event-stream", headers=STREAM_HEADERS)


async def _changes(service: Service, request: Request, after: int) -> AsyncIterator[bytes]:
    yield event(after, "begun")
    async for end in ends(service, request, after):
        yield event(end, "changed") if end else ALIVE
        if end:
            await asyncio.sleep(AT_MOST_EVERY_S)


async def ends(service: Service, request: Request, told: int) -> AsyncIterator[int]:
    """The trail's end each time that it is another one than was told, and 0 now and then where it
    is not; as long as the listener's login lasts and the service works.
    """
    known_at = time.monotonic()
    while not service.changes.streams_ended:
        if time.monotonic() - known_at >= HEARTBEAT_S:
            known_at = time.monotonic()
            try:
                await to_thread.run_sync(service.known, request)
            except VgpumgrError:
                return
            yield 0
        end = service.changes.version
        if end != told:
            told = end
            yield end
        else:  # nothing is awaited between the look and this: no change is missed
            await service.changes.wait(HEARTBEAT_S)


def event(number: int, name: str, data: str = "") -> bytes:
    """A server-sent event; ``data`` may have lines."""
    lines = "".join(f"data: {each}\n" for each in data.split("\n"))
    return f"id: {number}\n{f'event: {name}' if name else ': '}\n{lines}\n".encode()
