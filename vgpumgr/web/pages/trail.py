"""Pages of the audit trail: what it says, and whether it is what was sealed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from vgpumgr.audit.event_classes import EVENT_CLASSES
from vgpumgr.web.form_fields import utc_seconds
from vgpumgr.web.item_list import item_list
from vgpumgr.web.listing import Column, Listing
from vgpumgr.web.page import Page, PageRead, Place
from vgpumgr.web.questions import Question

_TRAIL = Listing(
    (
        Column("When", "at", "when"),
        Column("Event", "event"),
        Column("Who", "by"),
        Column("VM", "vm", "vm"),
        Column("Host", "host", "host"),
        Column("GPU", "gpu", "gpu"),
        Column("Profile", "profile"),
        Column("What", "detail"),
        Column("From", "address"),
        Column("Operation", "operation", "operation"),
    ),
    intro="The newest 1,000 records that match.",
)
_FILTERS = ("vm", "host", "operation", "event", "user", "tenant")


def _trail(place: Place) -> dict[str, Any]:
    asked: dict[str, Any] = {key: place[key] for key in _FILTERS if place.get(key)}
    if place.get("since"):
        asked["since"] = utc_seconds(place["since"])
    return {"limit": 1000, **asked}


def _spans(place: Place) -> list[tuple[str, str]]:
    """Links to the records since then, of what is looked for already."""
    now = datetime.now(UTC)
    midnight = now.replace(hour=0, minute=0)
    begins = (
        ("The last hour", now - timedelta(hours=1)),
        ("Today", midnight),
        ("Since yesterday", midnight - timedelta(days=1)),
        ("A week", midnight - timedelta(days=7)),
    )
    kept = {key: place[key] for key in _FILTERS if place.get(key)}
    return [
        (text, "?" + urlencode({**kept, "since": f"{begin:%Y-%m-%d %H:%M}"}))
        for text, begin in begins
    ]


def _list(answers: dict[str, Any], place: Place) -> Mapping[str, Any]:
    found = item_list(answers["answer"]["items"], place)
    events = sorted(EVENT_CLASSES)
    return {"listing": _TRAIL, "list": found, "events": events, "spans": _spans(place)}


_PIECE = ("size", "edge", "seq", "leaf", "most")


def _piece(place: Place) -> dict[str, Any]:
    return {key: place[key] for key in _PIECE if place.get(key)}


def _check(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    """The way to the next piece, and how many findings there are so far."""
    verdict, before = answers["verdict"], place.get("bad", "")
    bad = len(verdict["wrong"]) + (int(before) if before.isascii() and before.isdecimal() else 0)
    after = urlencode({**(verdict["next"] or {}), "bad": bad})
    return {"bad": bad, "go_on": f"/trail/check?{after}"}


PAGES = (
    Page(
        path="/trail",
        title="Trail",
        section="Trail",
        template="trail.html",
        reads=(PageRead("answer", "audit.list", _trail),),
        more=_list,
    ),
    Page(
        path="/trail/check",
        title="Check of the trail",
        section="Trail",
        template="trail_check.html",
        reads=(PageRead("verdict", "audit.verify", _piece),),
        live=False,
        more=_check,
    ),
)
QUESTIONS: tuple[Question, ...] = ()
