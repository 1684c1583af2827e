"""Pictures of the fleet, and the changes between them, drawn once for all who look."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from anyio import to_thread

from vgpumgr.web.fleet_picture import Answer, FleetPicture, draw

MOST_TEXTS = 256


@dataclass(slots=True)
class _Last:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    number: int = -1
    picture: FleetPicture = field(default_factory=FleetPicture)


class SharedPictures:
    """The last picture for each scope, and the newest texts of changes. All are of one event loop:
    waiting for a picture that is being drawn keeps no thread.
    """

    def __init__(self) -> None:
        self._last: dict[str, _Last] = {}
        self._texts: OrderedDict[Hashable, asyncio.Task[str]] = OrderedDict()

    async def at(
        self, scope: str, end: int, read: Callable[[], Answer]
    ) -> tuple[int, FleetPicture]:
        """The picture of a scope when the trail had come to ``end``, or later, and its number: of
        one number there is one picture. ``read`` gives the answer it is drawn from, in a thread.
        """
        last = self._last.setdefault(scope, _Last())
        async with last.lock:
            if last.number < end:
                before = last.picture
                last.picture = await to_thread.run_sync(lambda: draw(read(), before))
                last.number = end
            return last.number, last.picture

    async def text(self, key: Hashable, make: Callable[[], str]) -> str:
        """The text of that key, made once, in a thread."""
        task = self._texts.get(key)
        if task is None:
            task = asyncio.ensure_future(to_thread.run_sync(make))
            self._texts[key] = task
            while len(self._texts) > MOST_TEXTS:
                self._texts.popitem(last=False)
        return await asyncio.shield(task)
