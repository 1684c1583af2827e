"""A route for every page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response

from vgpumgr.api.authentication import LOGIN_COOKIE
from vgpumgr.api.service import Service
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.model.errors import AccessRefused, LoginRefused, NotFound, VgpumgrError
from vgpumgr.web.html_answers import error_page, html, to_page
from vgpumgr.web.page import Page, PageRead
from vgpumgr.web.page_call import PageCall
from vgpumgr.web.rendering import render

if TYPE_CHECKING:
    from vgpumgr.web.page_call import PageCall


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """An entry; ``endpoint`` is what its page reads first."""

    title: str
    path: str
    endpoint: str


OWN = "My desktops"
MENU = (
    MenuEntry(OWN, "/desktops", "desktop.mine"),
    MenuEntry("Map", "/map", "map.show"),
    MenuEntry("Hosts", "/hosts", "host.list"),
    MenuEntry("GPUs", "/gpus", "gpu.list"),
    MenuEntry("VMs", "/vms", "vm.list"),
    MenuEntry("Apply", "/apply", "vm.apply"),
    MenuEntry("Pools", "/pools", "pool.list"),
    MenuEntry("Bookings", "/bookings", "booking.list"),
    MenuEntry("Queue", "/queue", "queue.list"),
    MenuEntry("Quotas", "/quotas", "quota.list"),
    MenuEntry("Licences", "/licences", "licence.list"),
    MenuEntry("Capacity", "/capacity", "capacity.list"),
    MenuEntry("Use", "/use", "use.show"),
    MenuEntry("Layouts", "/layouts", "layout.show"),
    MenuEntry("Power", "/power", "power.list"),
    MenuEntry("Cost", "/cost", "report.usage"),
    MenuEntry("Images", "/images", "image.list"),
    MenuEntry("Backups", "/backups", "backup.list"),
    MenuEntry("Take over", "/takeover", "takeover.plan"),
    MenuEntry("Operations", "/operations", "operation.list"),
    MenuEntry("Drift", "/drift", "drift.list"),
    MenuEntry("Trail", "/trail", "audit.list"),
    MenuEntry("Access", "/access", "role.list"),
    MenuEntry("Settings", "/settings", "settings.show"),
)


def menu_of(call: PageCall, paths: frozenset[str]) -> tuple[MenuEntry, ...]:
    """The entries of who asks: of pages that there are, and that they may see; for a user of
    desktops their own alone.
    """
    seen = (each for each in MENU if each.path in paths and call.may_call(each.endpoint))
    return tuple(each for each in seen if each.title == OWN or not call.is_desktop_user)


_FROM_SCRIPT = "hx-request"


@dataclass(frozen=True, slots=True)
class PageRoutes:
    """The pages over a service; ``paths`` are those of all pages."""

    service: Service
    paths: frozenset[str]

    async def show(self, page: Page, request: Request) -> Response:
        """The page for who asks; who is not logged in goes to the login first."""
        call = PageCall(self.service, request)
        try:
            await to_thread.run_sync(lambda: call.who)
        except LoginRefused:
            return to_login(request)
        except VgpumgrError as error:
            return error_page(error, bare_frame())
        frame = self.frame(call, page.section, page.title)
        place = {**request.query_params, **request.path_params}
        try:
            answers = await _answers(page, call, place)
            values = {**frame, **answers, "place": place, **page.more(answers, place)}
            text = await to_thread.run_sync(lambda: render(page.template, values))
        except VgpumgrError as error:
            return error_page(error, {**frame, "trail": _trail_of(page, call, place, error)})
        return html(text, request=request)

    def frame(self, call: PageCall, section: str, title: str) -> dict[str, Any]:
        """What the frame of a page shows. What a script asks for is put into a page that has one
        already.
        """
        bare = _FROM_SCRIPT in call.request.headers
        query = call.request.url.query
        return {
            "frame": "bare.html" if bare else "frame.html",
            "title": title,
            "section": section,
            "menu": () if bare else menu_of(call, self.paths),
            "call": call,
            "here": call.request.url.path + (f"?{query}" if query else ""),
            "live": False,
            "seen": self.service.changes.version,
        }


def bare_frame() -> dict[str, Any]:
    """The frame around what is said to who is not known."""
    return {"frame": "outside.html", "section": ""}


def to_login(request: Request) -> Response:
    """The login, which comes back here; a script is told to load the page again. A cookie that is
    not taken any more is not to be shown again.
    """
    query = f"?{request.url.query}" if request.url.query else ""
    answer = to_page(f"/login?next={quote(request.url.path + query, safe='')}")
    if _FROM_SCRIPT in request.headers:
        answer = html("", 401)
        answer.headers["HX-Refresh"] = "true"
    if LOGIN_COOKIE in request.cookies and request.method == "GET":
        answer.delete_cookie(LOGIN_COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return answer


def _trail_of(page: Page, call: PageCall, place: Mapping[str, str], error: VgpumgrError) -> str:
    """The address of the records of what is not there any more; empty without any."""
    known = page.trail_of and isinstance(error, NotFound) and call.may_call("audit.list")
    return f"/trail?{urlencode({page.trail_of: place[page.trail_of]})}" if known else ""


async def _answers(page: Page, call: PageCall, place: dict[str, str]) -> dict[str, Any]:
    if page.permission is not None:
        call.who.grants.require(page.permission)
    found: dict[str, Any] = {"live": page.live}
    for each in page.reads:
        if not call.may_call(each.endpoint):
            if each.needed:
                raise refusal(call, each.endpoint)
            found[each.name] = None
            continue
        found[each.name] = await _read(each, call, place)
    return found


async def _read(read: PageRead, call: PageCall, place: dict[str, str]) -> dict[str, Any]:
    try:
        return await call.read(read.endpoint, read.asked(place))
    except VgpumgrError as error:
        if not read.instead:
            raise
        return {**await call.read(read.instead, read.asked(place)), "refused": error.as_dict()}


def refusal(call: PageCall, name: str) -> VgpumgrError:
    """Why they may not call the endpoint of that name."""
    permission = ENDPOINTS[name].permission
    if permission is not None:
        try:
            call.who.grants.require(permission)
        except AccessRefused as error:
            return error
    return NotFound("there is no such page for you", why="it shows what is all tenants'")


def add_pages(
    api: FastAPI, service: Service, pages: Iterable[Page], others: Iterable[str]
) -> PageRoutes:
    """Add them all; ``others`` are the paths of pages that have routes of their own."""
    every = tuple(pages)
    routes = PageRoutes(service, frozenset((*others, *(each.path for each in every))))

    def add(page: Page) -> None:
        async def handle(request: Request) -> Response:
            return await routes.show(page, request)

        api.add_api_route(page.path, handle, methods=["GET"], include_in_schema=False)

    for each in every:
        add(each)
    return routes
