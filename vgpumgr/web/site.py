"""The site: the API with its pages."""

from __future__ import annotations

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response

from vgpumgr.api.application import make_application
from vgpumgr.api.service import Service
from vgpumgr.model.errors import LoginRefused
from vgpumgr.web.change_routes import add_changes
from vgpumgr.web.documents import add_documents
from vgpumgr.web.fleet_map_page import add_fleet_map
from vgpumgr.web.html_answers import to_page
from vgpumgr.web.live_routes import add_live
from vgpumgr.web.login_pages import add_login_pages
from vgpumgr.web.page_call import PageCall
from vgpumgr.web.page_routes import add_pages, to_login
from vgpumgr.web.pages import DOCUMENTS, PAGES
from vgpumgr.web.static_files import add_static_files


def make_site(service: Service) -> FastAPI:
    """The whole of it over a service."""
    site = make_application(service)
    add_static_files(site)
    routes = add_pages(site, service, PAGES, others=("/map", *(each.path for each in DOCUMENTS)))
    add_fleet_map(site, routes)
    add_changes(site, routes)
    add_documents(site, routes, DOCUMENTS)
    add_live(site, service)
    add_login_pages(site, service)

    @site.get("/", include_in_schema=False)
    async def begin(request: Request) -> Response:
        call = PageCall(service, request)
        try:
            own = await to_thread.run_sync(lambda: call.is_desktop_user)
        except LoginRefused:
            return to_login(request)
        return to_page("/desktops" if own else "/map")

    return site
