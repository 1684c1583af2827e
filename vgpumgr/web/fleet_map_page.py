"""The page of the fleet map, which is told of each host that is drawn otherwise."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import dataclass, field
from typing import Annotated, Any

from anyio import to_thread
from fastapi import FastAPI, Header, Request
from fastapi.responses import Response, StreamingResponse

from vgpumgr.access.permission import Permission
from vgpumgr.model.errors import LoginRefused, VgpumgrError
from vgpumgr.web.fleet_picture import Answer, FleetPicture, draw, matching, models, totals
from vgpumgr.web.html_answers import error_page, html
from vgpumgr.web.live_routes import STREAM_HEADERS, ends, event
from vgpumgr.web.page_call import PageCall
from vgpumgr.web.page_routes import PageRoutes, to_login
from vgpumgr.web.rendering import render

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


TOGETHER_S = 0.1
"""Changes within so long are shown at once."""
FILTERS = ("host", "model", "only")
"""What the map may be narrowed by, in its address."""
Words = dict[str, str]
NumberedPicture = tuple[int, FleetPicture]


class FleetMapPage:
    """The map for many who look at it."""

    def __init__(self, routes: PageRoutes) -> None:
        self._routes = routes
        self._service = routes.service
        self._pictures = SharedPictures()

    async def show(self, request: Request) -> Response:
        """The whole page, as the filter in its address says."""
        call, words = PageCall(self._service, request), dict(request.query_params)
        try:
            await to_thread.run_sync(lambda: call.who)
        except LoginRefused:
            return to_login(request)
        frame = self._routes.frame(call, "Map", "Map")
        try:
            seen, whole = await self._picture(call)
            values = {**frame, "seen": seen, "query": request.url.query}
            text = await to_thread.run_sync(_page, values, whole, words)
        except VgpumgrError as error:
            return error_page(error, frame)
        return html(text, request=request)

    async def live(
        self, request: Request, after: int = 0, last_event_id: Annotated[int, Header(ge=0)] = 0
    ) -> Response:
        """Hosts that are drawn otherwise, as they change. Who comes back is sent all of them where
        there was a change meanwhile.
        """
        call, words = PageCall(self._service, request), dict(request.query_params)
        await to_thread.run_sync(lambda: call.who.grants.require(Permission.FLEET_READ))
        events = self._events(call, words, last_event_id or after)
        return StreamingResponse(events, media_type="text/event-stream", headers=STREAM_HEADERS)

    async def _events(self, call: PageCall, words: Words, told: int) -> AsyncIterator[bytes]:
        seen, whole = await self._picture(call)
        before = matching(whole, words)
        yield event(told, "begun")  # a listener that is cut off now has no more than that
        if seen != told:
            told = seen
            yield event(
                told, "", await self._text(call, words, (-1, FleetPicture()), (seen, before))
            )
        async for end in ends(self._service, call.request, seen):
            if not end:
                yield event(told, "alive", str(told))
                continue
            try:
                number, whole = await self._picture(call)
            except VgpumgrError:
                return  # the listener comes again
            shown = matching(whole, words)
            if text := await self._text(call, words, (seen, before), (number, shown)):
                told = number
                yield event(told, "", text)
            seen, before = number, shown
            await asyncio.sleep(TOGETHER_S)

    async def _picture(self, call: PageCall) -> NumberedPicture:
        return await self._pictures.at(
            _scope(call), self._service.changes.version, lambda: call.read_here("map.show", {})
        )

    async def _text(
        self, call: PageCall, words: Words, before: NumberedPicture, now: NumberedPicture
    ) -> str:
        """What leads from one picture to the other, made once for all who look through the same
        filter.
        """
        key = _scope(call), tuple(words.get(each, "") for each in FILTERS), before[0], now[0]
        return await self._pictures.text(key, lambda: _changes(now[1], before[1]))


def _scope(call: PageCall) -> str:
    scope = call.who.grants.require(Permission.FLEET_READ)
    return "*" if scope.is_all else " ".join(sorted(scope.tenants or ()))


def _page(values: dict[str, Any], whole: FleetPicture, words: Words) -> str:
    shown = matching(whole, words)
    of_map = {
        "hosts": [each.html for each in shown.hosts.values()],
        "frozen": whole.frozen,
        "totals": totals(shown),
        "models": models(whole),
        "words": {key: words.get(key, "") for key in FILTERS},
    }
    return render("map.html", {**values, **of_map})


def _changes(shown: FleetPicture, before: FleetPicture) -> str:
    """What takes the place of what the page has, in the one stream so that it comes in order: hosts
    that are drawn otherwise, all of them where there are others, and nothing where all is the same.
    """
    values: dict[str, Any] = {"totals": totals(shown), "changed": [], "hosts": None}
    if not shown.same_hosts(before):
        values["hosts"] = [each.html for each in shown.hosts.values()]
        return render("map_changes.html", values)
    values["changed"] = list(shown.changed_since(before))
    return render("map_changes.html", values) if values["changed"] else ""


def add_fleet_map(site: FastAPI, routes: PageRoutes) -> None:
    """Add it."""
    page = FleetMapPage(routes)
    site.add_api_route("/map", page.show, methods=["GET"], include_in_schema=False)
    site.add_api_route("/live/map", page.live, methods=["GET"], include_in_schema=False)
