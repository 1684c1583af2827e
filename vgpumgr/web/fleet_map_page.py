"""The page of the fleet map, which is told of each host that is drawn otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from anyio import from_thread, to_thread
from fastapi import FastAPI, Header, Request
from fastapi.responses import Response, StreamingResponse

from vgpumgr.access.permission import Permission
from vgpumgr.model.errors import LoginRefused, VgpumgrError
from vgpumgr.web.fleet_picture import FleetPicture, FleetPictures, matching, models, totals
from vgpumgr.web.html_answers import error_page, html
from vgpumgr.web.live_routes import ALIVE, STREAM_HEADERS, ends, event
from vgpumgr.web.page_call import PageCall
from vgpumgr.web.page_routes import PageRoutes, to_login
from vgpumgr.web.rendering import render

TOGETHER_S = 0.1
"""Changes within so long are shown at once."""
Words = dict[str, str]


class FleetMapPage:
    """The map for many who look at it."""

    def __init__(self, routes: PageRoutes) -> None:
        self._routes = routes
        self._service = routes.service
        self._pictures = FleetPictures()

    async def show(self, request: Request) -> Response:
        """The whole page, as the filter in its address says."""
        call, words = PageCall(self._service, request), dict(request.query_params)
        try:
            await to_thread.run_sync(lambda: call.who)
        except LoginRefused:
            return to_login(request)
        frame = self._routes.frame(call, "Map", "Map")
        try:
            text = await to_thread.run_sync(self._page, call, frame, words)
        except VgpumgrError as error:
            return error_page(error, frame)
        return html(text, request=request)

    def _page(self, call: PageCall, frame: dict[str, Any], words: Words) -> str:
        seen, whole = self._picture(call)
        shown = matching(whole, words)
        values = {
            "seen": seen,
            "hosts": [each.html for each in shown.hosts.values()],
            "frozen": whole.frozen,
            "totals": totals(shown),
            "models": models(whole),
            "words": {key: words.get(key, "") for key in ("host", "model", "only")},
            "query": call.request.url.query,
        }
        return render("map.html", {**frame, **values})

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
        seen, whole = await to_thread.run_sync(self._picture, call)
        before = matching(whole, words)
        yield event(seen, "begun")
        if seen != told:
            yield event(seen, "", await to_thread.run_sync(_changes, before, FleetPicture()))
        async for end in ends(self._service, call.request, seen):
            if not end:
                yield ALIVE
                continue
            try:
                seen, whole = await to_thread.run_sync(self._picture, call)
            except VgpumgrError:
                return  # the listener comes again
            shown = matching(whole, words)
            if text := await to_thread.run_sync(_changes, shown, before):
                yield event(seen, "", text)
            before = shown
            await asyncio.sleep(TOGETHER_S)

    def _picture(self, call: PageCall) -> tuple[int, FleetPicture]:
        scope = call.who.grants.require(Permission.FLEET_READ)
        key = "*" if scope.is_all else " ".join(sorted(scope.tenants or ()))

        def read() -> dict[str, Any]:
            found: dict[str, Any] = from_thread.run(call.read, "map.show", {})
            return found

        return self._pictures.at(key, self._service.changes.end, read)


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
