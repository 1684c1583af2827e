"""Changes from pages: what is asked first, and the call of the endpoint once it is answered."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.status import HTTP_202_ACCEPTED, HTTP_400_BAD_REQUEST

from vgpumgr.api.parameters import all_parameters
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.model.errors import LoginRefused, NotFound, UsageError, VgpumgrError, error_from
from vgpumgr.web.form_fields import Fields, read_fields
from vgpumgr.web.html_answers import error_page, html, to_page
from vgpumgr.web.page_call import PageCall, with_defaults
from vgpumgr.web.page_routes import PageRoutes, to_login
from vgpumgr.web.pages import QUESTIONS
from vgpumgr.web.questions import Question
from vgpumgr.web.rendering import render

KEY, SEEN = "request.key", "request.seen"
"""Fields of a form that are about the request: its idempotency key, and the ETag that was seen."""
MOST_FIELDS = 5000


@dataclass(frozen=True, slots=True)
class ChangeRoutes:
    """Questions, and what follows from their answers."""

    routes: PageRoutes

    async def ask(self, name: str, request: Request) -> Response:
        """The question before a change, with what would happen."""
        return await self._answer(name, request, request.query_params.multi_items(), self._ask)

    async def do(self, name: str, request: Request) -> Response:
        """The change."""
        body = (await request.body()).decode("utf-8", "replace")
        try:
            fields = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError:
            fields = []
        return await self._answer(name, request, fields, self._do)

    async def _answer(self, name: str, request: Request, fields: Fields, work: Any) -> Response:
        call = PageCall(self.routes.service, request)
        try:
            await to_thread.run_sync(lambda: call.who)
        except LoginRefused:
            return to_login(request)
        frame = self.routes.frame(call, "", "")
        try:
            question = QUESTIONS.get(name)
            if question is None:
                raise NotFound(f"no change {name}")
            answer: Response = await work(question, call, fields, frame)
        except VgpumgrError as error:
            return error_page(error, frame)
        return answer

    async def _ask(
        self, question: Question, call: PageCall, fields: Fields, frame: dict[str, Any]
    ) -> Response:
        asked = read_fields(question.endpoint, fields)
        values = {
            **frame,
            "title": question.text(asked),
            "question": question,
            "asked": asked,
            "back": question.back(asked),
            "hidden": hidden_fields(asked, question),
            "shown": [each for each in hidden_fields(asked, question) if each[0] in question.shown],
            "key": secrets.token_urlsafe(24),
            "seen": await to_thread.run_sync(lambda: call.tag(question.endpoint, asked)),
            "preview": await self._preview(question, call, asked),
        }
        return html(await to_thread.run_sync(lambda: render("ask.html", values)))

    async def _preview(
        self, question: Question, call: PageCall, asked: dict[str, Any]
    ) -> dict[str, Any] | None:
        if not question.preview or not call.may_call(question.preview):
            return None
        known = all_parameters(ENDPOINTS[question.preview]).model_fields
        try:
            return await call.read(
                question.preview, {key: asked[key] for key in known if key in asked}
            )
        except VgpumgrError as error:
            return {"refused": error.as_dict()}

    async def _do(
        self, question: Question, call: PageCall, fields: Fields, frame: dict[str, Any]
    ) -> Response:
        about = dict(each for each in fields if each[0] in {KEY, SEEN})
        asked = read_fields(
            question.endpoint, [each for each in fields if each[0] not in {KEY, SEEN}]
        )
        whole = with_defaults(question.endpoint, asked)
        if not about.get(KEY):
            raise UsageError("the form has no key", next="load its page again")
        answer = await call.change(
            question.endpoint, whole, key=about[KEY], if_match=about.get(SEEN, "")
        )
        told: dict[str, Any] = json.loads(bytes(answer.body))
        if answer.status_code >= HTTP_400_BAD_REQUEST:
            raise error_from(told)
        if answer.status_code == HTTP_202_ACCEPTED:
            return to_page(f"/operations/{told['name']}")
        values = {
            **frame,
            "title": question.text(asked),
            "question": question,
            "answer": told,
            "back": question.back(asked),
        }
        return html(await to_thread.run_sync(lambda: render("done.html", values)))


def hidden_fields(asked: dict[str, Any], question: Question) -> Fields:
    """What was asked already, for the form."""
    chosen = {each.name for each in question.choices}
    return [
        (key, text)
        for key, value in asked.items()
        if key not in chosen
        for text in (value if isinstance(value, list) else [value])
    ]


def add_changes(site: FastAPI, routes: PageRoutes) -> None:
    """Add them."""
    changes = ChangeRoutes(routes)
    site.add_api_route("/ask/{name}", changes.ask, methods=["GET"], include_in_schema=False)
    site.add_api_route("/do/{name}", changes.do, methods=["POST"], include_in_schema=False)
