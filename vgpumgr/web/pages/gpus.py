"""Pages of GPUs."""

from __future__ import annotations

from typing import Any

from vgpumgr.web.item_list import item_list
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Question, one, page_of


def _list(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    return {"list": item_list(answers["gpus"]["items"], place)}


PAGES = (
    Page(
        path="/gpus",
        title="GPUs",
        section="GPUs",
        template="gpus.html",
        reads=(PageRead("gpus", "gpu.list"),),
        more=_list,
    ),
    Page(
        path="/gpus/{gpu:path}",
        title="GPU",
        section="GPUs",
        template="gpu.html",
        reads=(PageRead("gpu", "gpu.show", named(name="gpu")),),
    ),
)

QUESTIONS = (
    Question(
        endpoint="gpu.cordon",
        text=one("Place no VM any more on"),
        button="Cordon",
        back=page_of("gpus", "name"),
        intro="VMs on it go on; one that was stopped does not start on it again.",
    ),
    Question(
        endpoint="gpu.reset",
        text=one("Reset"),
        button="Reset",
        back=page_of("gpus", "name"),
        preview="gpu.reset-plan",
        intro="A GPU that nothing uses is reset, and partitioned as it was.",
        ends_something=True,
    ),
    Question(
        endpoint="heal.lift",
        text=one("Lift the quarantine of"),
        button="Lift",
        back=page_of("gpus", "name"),
    ),
)
