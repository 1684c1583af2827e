"""Pages of operations: what is being done, step by step."""

from __future__ import annotations

from typing import Any

from vgpumgr.web.item_list import item_list
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Question, one, page_of


def _list(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    return {"list": item_list(answers["operations"]["items"], place)}


PAGES = (
    Page(
        path="/operations",
        title="Operations",
        section="Operations",
        template="operations.html",
        reads=(PageRead("operations", "operation.list", lambda _: {"limit": 1000}),),
        more=_list,
    ),
    Page(
        path="/operations/{id}",
        title="Operation",
        section="Operations",
        template="operation.html",
        reads=(PageRead("operation", "operation.show", named(id="id")),),
    ),
)

QUESTIONS = (
    Question(
        endpoint="operation.resume",
        text=one("Resume operation", "id"),
        button="Resume",
        back=page_of("operations", "id"),
    ),
    Question(
        endpoint="operation.undo",
        text=one("Undo operation", "id"),
        button="Undo",
        back=page_of("operations", "id"),
        ends_something=True,
    ),
)
