"""The page of balance: which hosts are hot, and which VMs would leave them."""

from __future__ import annotations

from typing import Any

from vgpumgr.web.page import Page, PageRead, Place
from vgpumgr.web.questions import Asked, Choice, Question, at

_WISHES = ("hot", "max_moves", "allow_cold", "with_users")


def _wish(place: Place) -> dict[str, Any]:
    return {key: place[key] for key in _WISHES if place.get(key)}


def _agreed(plan: Asked) -> dict[str, Any]:
    """The VMs that may move: the shown ones."""
    return {"may_move": [each["name"] for each in plan["moves"]]}


PAGES = (
    Page(
        path="/balance",
        title="Balance",
        section="Capacity",
        template="balance.html",
        reads=(PageRead("plan", "balance.plan", _wish),),
        live=False,
        more=lambda _, place: {"wish": _wish(place)},
    ),
)

QUESTIONS = (
    Question(
        endpoint="balance.run",
        text=lambda _: "Move VMs from hot hosts to cooler ones",
        button="Move them",
        back=at("/balance"),
        preview="balance.plan",
        agreed=_agreed,
        choices=(
            Choice("hot", "Hot from which share", "number", "0.8 if nothing is said: 80 %"),
            Choice("max_moves", "Moves at most", "number", "10 if nothing is said"),
            Choice("allow_cold", "Also by stopping VMs", hint="They start again elsewhere."),
            Choice("with_users", "Also where users are at work", hint="They are cut off."),
        ),
        intro="One VM after the other; the first move that is refused ends it.",
        ends_something=True,
    ),
)
