"""Pages of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from vgpumgr.web.item_list import item_list
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Question, one, page_of


def _list(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    """By host, or those first that have the most free memory."""
    items = answers["gpus"]["items"]
    if place.get("order") == "free":
        items = sorted(items, key=_free_mib, reverse=True)
    most_free = "?" + urlencode({**place, "order": "free"})
    return {"list": item_list(items, place), "most_free": most_free}


def _free_mib(gpu: Mapping[str, Any]) -> float:
    free = gpu["units"] - gpu["units_used"] if gpu["state"] == "healthy" else 0
    return float((gpu["memory_mib"] or 0) * free / max(gpu["units"], 1))


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
        path="/health",
        title="Health",
        section="GPUs",
        template="health.html",
        reads=(PageRead("health", "health.evaluate"),),
        more=lambda answers, place: {"list": item_list(answers["health"]["items"], place)},
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
