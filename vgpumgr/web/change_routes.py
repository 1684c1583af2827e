"""Changes from pages: what is asked first, and the call of the endpoint once it is answered."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.status import HTTP_202_ACCEPTED, HTTP_400_BAD_REQUEST

from vgpumgr.api.parameters import all_parameters
from vgpumgr.api.problems import status_of
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.model.errors import LoginRefused, NotFound, UsageError, VgpumgrError, error_from
from vgpumgr.web.form_fields import (
    Fields,
    lacks,
    mark_of,
    parameters_of,
    posted_fields,
    read_fields,
)
from vgpumgr.web.html_answers import error_page, html, to_page
from vgpumgr.web.page_call import PageCall, with_defaults
from vgpumgr.web.page_routes import PageRoutes, refusal, to_login
from vgpumgr.web.pages import QUESTIONS
from vgpumgr.web.questions import Question
from vgpumgr.web.rendering import render

Asked = dict[str, Any]
About = dict[str, str]
Frame = dict[str, Any]
KEY, SEEN, SHOWN = "request.key", "request.seen", "request.shown"
"""Fields of a form that are about the request: its idempotency key, the ETag that was seen, and the
mark of what the preview was about.
"""
_OTHERWISE = "Something else was chosen since: this is what would happen now."


@dataclass(frozen=True, slots=True)
class ChangeRoutes:
    """Questions, and what follows from their answers."""

    routes: PageRoutes

    async def ask(self, name: str, request: Request) -> Response:
        """The question before a change, with what would happen."""
        return await self._answer(name, request, self._ask)

    async def do(self, name: str, request: Request) -> Response:
        """The change."""
        return await self._answer(name, request, self._do)

    async def _answer(self, name: str, request: Request, work: Any) -> Response:
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
            await to_thread.run_sync(_require, question, call)
            fields = await _fields(request)
            about = dict(each for each in fields if each[0] in {KEY, SEEN, SHOWN})
            asked = read_fields(
                name, (each for each in fields if each[0] not in about), question.choices
            )
            answer: Response = await work(question, call, asked, about, frame)
        except VgpumgrError as error:
            return error_page(error, frame)
        return answer

    async def _ask(
        self, question: Question, call: PageCall, asked: Asked, _: About, frame: Frame
    ) -> Response:
        return await self._asked(question, call, asked, frame)

    async def _asked(
        self,
        question: Question,
        call: PageCall,
        asked: Asked,
        frame: Frame,
        *,
        problem: VgpumgrError | None = None,
        notice: str = "",
    ) -> Response:
        """The question with what is asked so far; ``problem`` is why it was not done."""
        seen = await to_thread.run_sync(_tag, question, call, asked)  # before what is shown of it
        previews = bool(question.preview) and call.may_call(question.preview)
        ready = previews and not lacks(question.preview, asked)
        preview = await _preview(question.preview, call, asked) if ready else None
        agreed = question.agreed(preview) if preview and not _refused(preview) else {}
        asked = {**asked, **agreed}
        also = [each for each in question.also if ready and call.may_call(each)]
        hidden = hidden_fields(asked, question)
        values = {
            **frame,
            "title": question.text(asked),
            "question": question,
            "asked": asked,
            "answers": await _answers(question, call),
            "back": question.back(asked),
            "hidden": hidden,
            "shown": [each for each in hidden if each[0] in question.shown],
            "key": secrets.token_urlsafe(24),
            "seen": seen,
            "preview": preview,
            "also": [(each, await _preview(each, call, asked)) for each in also],
            "mark": mark_of(question.preview, asked) if preview and not _refused(preview) else "",
            "looks": previews and _is_chosen(question),
            "does": call.may_call(question.endpoint)
            and (ready or not previews)
            and all(agreed.values())
            and not (preview and _is_vain(question, preview)),
            "problem": problem.as_dict() if problem else None,
            "notice": notice,
        }
        text = await to_thread.run_sync(lambda: render("ask.html", values))
        return html(text, status_of(problem.code) if problem else 200)

    async def _do(
        self, question: Question, call: PageCall, asked: Asked, about: About, frame: Frame
    ) -> Response:
        if not about.get(KEY):
            raise UsageError("the form has no key", next="load its page again")
        if about.get(SHOWN) and about[SHOWN] != mark_of(question.preview, asked):
            return await self._asked(question, call, asked, frame, notice=_OTHERWISE)
        try:
            _require_said(question, asked)
            answer = await call.change(
                question.endpoint,
                with_defaults(question.endpoint, asked),
                key=about[KEY],
                if_match=about.get(SEEN, ""),
            )
            told: dict[str, Any] = json.loads(bytes(answer.body))
            if answer.status_code >= HTTP_400_BAD_REQUEST:
                raise error_from(told)
        except VgpumgrError as error:
            _label(question, error)
            return await self._asked(question, call, asked, frame, problem=error)
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


async def _fields(request: Request) -> Fields:
    if request.method == "GET":
        return request.query_params.multi_items()
    return posted_fields(await request.body())


def _require(question: Question, call: PageCall) -> None:
    """The question is for who may make the change, or look at what several choices would do."""
    looks = _is_chosen(question) and call.may_call(question.preview)
    if not looks and not call.may_call(question.endpoint):
        raise refusal(call, question.endpoint)


def _label(question: Question, error: VgpumgrError) -> None:
    """A field that cannot be read is named as the form names it."""
    name, _, what = error.message.partition(": ")
    for each in question.choices:
        if isinstance(error, UsageError) and each.name == name:
            error.message = f"{each.label}: {what}"


def _require_said(question: Question, asked: Asked) -> None:
    for each in question.choices:
        if each.required and not asked.get(each.name):
            raise UsageError(f"{each.label}: nothing was said", next="fill it in")


def _is_chosen(question: Question) -> bool:
    """Is something of the preview chosen when asked?"""
    known = all_parameters(ENDPOINTS[question.preview]).model_fields if question.preview else ()
    return any(each.name in known for each in question.choices)


def _is_vain(question: Question, preview: dict[str, Any]) -> bool:
    """Would the change be refused, as its preview says, which knows all that is chosen?"""
    known = all_parameters(ENDPOINTS[question.preview]).model_fields
    if any(each.name not in known for each in question.choices):
        return False
    fails = any(not each.get("holds", True) for each in preview.get("checks", ()))
    return _refused(preview) or fails or bool(preview.get("unplaced"))


async def _preview(name: str, call: PageCall, asked: Asked) -> dict[str, Any]:
    try:
        return await call.read(name, parameters_of(name, asked))
    except VgpumgrError as error:
        return {"refused": error.as_dict()}


def _refused(preview: dict[str, Any]) -> bool:
    return "refused" in preview and isinstance(preview["refused"], dict)


async def _answers(question: Question, call: PageCall) -> dict[str, Any]:
    return {
        each.name: await call.read(each.endpoint, each.asked({}))
        if call.may_call(each.endpoint)
        else None
        for each in question.reads
    }


def _tag(question: Question, call: PageCall, asked: Asked) -> str:
    """The ETag of what is to be changed, as it is while this is asked."""
    tag = ENDPOINTS[question.endpoint].tag
    of_same = [name for name, each in ENDPOINTS.items() if tag and each.tag is tag]
    for name in (question.endpoint, *of_same):
        if tag and not lacks(name, asked):
            try:
                return call.tag(name, parameters_of(name, asked))
            except (NotFound, UsageError):  # the endpoint makes it, or says so itself
                return ""
    return ""


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
    site.add_api_route("/ask/{name}", changes.ask, methods=["GET", "POST"], include_in_schema=False)
    site.add_api_route("/do/{name}", changes.do, methods=["POST"], include_in_schema=False)
