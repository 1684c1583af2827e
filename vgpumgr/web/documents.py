"""Pages on which a file is typed, or chosen: what would come of it is shown before it is done."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response

from vgpumgr.api.problems import status_of
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.model.errors import LoginRefused, PoolsInFile, UsageError, VgpumgrError
from vgpumgr.web.form_fields import posted_fields, read_fields
from vgpumgr.web.html_answers import error_page, html
from vgpumgr.web.page_call import PageCall
from vgpumgr.web.page_routes import PageRoutes, bare_frame, to_login
from vgpumgr.web.questions import Choice
from vgpumgr.web.rendering import render

SOURCE = "the text"
"""What errors call a file that was typed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPage:
    """A page for files of one kind. ``plan`` is the endpoint that tells what would come of a text,
    shown by ``template``; ``apply`` the one that does it (empty: nothing is done). Files of pools
    go to ``pools`` instead: (plan, template, apply). ``choices`` are other parameters of the plan.
    ``of_many``: it takes several texts by their names, of which this is one.
    """

    path: str
    title: str
    section: str
    plan: str
    template: str
    apply: str = ""
    pools: tuple[str, str, str] = ("", "", "")
    button: str = "Show the plan"
    choices: tuple[Choice, ...] = ()
    intro: str = ""
    of_many: bool = False


@dataclass(frozen=True, slots=True)
class DocumentRoutes:
    """The pages over a service."""

    routes: PageRoutes

    async def show(self, page: DocumentPage, request: Request) -> Response:
        """The empty page."""
        return await self._answer(page, request, dict(request.query_params), plan=False)

    async def plan(self, page: DocumentPage, request: Request) -> Response:
        """The page with the text, and what would come of it."""
        try:
            fields = dict(posted_fields(await request.body()))
        except UsageError as error:
            return error_page(error, bare_frame())
        return await self._answer(page, request, fields, plan=True)

    async def _answer(
        self, page: DocumentPage, request: Request, fields: dict[str, str], *, plan: bool
    ) -> Response:
        text = fields.get("text", "")
        call = PageCall(self.routes.service, request)
        try:
            await to_thread.run_sync(lambda: call.who)
        except LoginRefused:
            return to_login(request)
        frame = self.routes.frame(call, page.section, page.title)
        values: dict[str, Any] = {**frame, "page": page, "text": text, "plan": None}
        values["fields"] = fields
        values |= {"problem": None, "apply": "", "source": SOURCE, "plan_template": page.template}
        status = 200
        try:
            permission = ENDPOINTS[page.plan].permission
            if permission is not None:
                call.who.grants.require(permission)
        except VgpumgrError as error:
            return error_page(error, frame)
        if plan:
            try:
                values |= await self._planned(page, call, fields)
            except VgpumgrError as error:
                values["problem"], status = error.as_dict(), status_of(error.code)
        shown = await to_thread.run_sync(lambda: render("document.html", values))
        return html(shown, status, request=request)

    async def _planned(
        self, page: DocumentPage, call: PageCall, fields: dict[str, str]
    ) -> dict[str, Any]:
        plan, template, apply = page.plan, page.template, page.apply
        asked = document_parameters(page, fields)
        try:
            found = await call.read(plan, asked)
        except PoolsInFile:
            if not page.pools[0]:
                raise
            plan, template, apply = page.pools
            found = await call.read(plan, asked)
        return {
            "plan": found,
            "plan_template": template,
            "apply": apply if apply and call.may_call(apply) else "",
            "key": secrets.token_urlsafe(24),
        }


def document_parameters(page: DocumentPage, fields: dict[str, str]) -> dict[str, Any]:
    """The parameters of the plan, as the form has them."""
    text = fields.get("text", "").replace("\r\n", "\n")
    names = {each.name for each in page.choices}
    chosen = ((key, text) for key, text in fields.items() if key in names)
    asked = read_fields(page.plan, chosen, page.choices)
    if page.of_many:
        asked |= {"texts": [text], "names": asked.get("names") or [SOURCE]}
    elif text or not page.choices:
        asked |= {"text": text, "source": SOURCE}
    return asked


def add_documents(site: FastAPI, routes: PageRoutes, pages: Iterable[DocumentPage]) -> None:
    """Add them all."""
    documents = DocumentRoutes(routes)

    def add(page: DocumentPage) -> None:
        async def show(request: Request) -> Response:
            return await documents.show(page, request)

        async def plan(request: Request) -> Response:
            return await documents.plan(page, request)

        site.add_api_route(page.path, show, methods=["GET"], include_in_schema=False)
        site.add_api_route(page.path, plan, methods=["POST"], include_in_schema=False)

    for each in pages:
        add(each)
