"""Pages of pools of desktops."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from vgpumgr.web.charts import area_chart, concurrent
from vgpumgr.web.listing import Column, Listing, list_page
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Choice, Question, at, one, page_of

_LIST = Listing(
    (
        Column("Pool", "name", "pool"),
        Column("State", "state", "state"),
        Column("Image", "image", "image"),
        Column("Profile", "profile"),
        Column("Desktops", "desktops", "number"),
        Column("Ready", "ready", "number"),
        Column("In use", "used", "number"),
        Column("In line", "waiting", "number"),
        Column("Broken", "broken", "number"),
        Column("At most", "max", "number"),
        Column("Tenant", "tenant"),
    )
)


def _day(answers: dict[str, Any], _: Place) -> dict[str, Any]:
    """The sessions of the last day, by quarters of an hour."""
    spans = [
        (datetime.fromisoformat(each["since"]), _time(each["closed_at"]))
        for each in answers["history"]["items"]
    ]
    end = datetime.now(UTC)
    times, values = concurrent(spans, end - timedelta(days=1), end, 96)
    return {"picture": area_chart(times, values, answers["pool"]["max"], "desktops")}


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


PAGES = (
    list_page("/pools", "Pools", "pool.list", _LIST),
    Page(
        path="/pools/{pool}",
        title="Pool",
        section="Pools",
        template="pool.html",
        reads=(
            PageRead("pool", "pool.show", named(name="pool")),
            PageRead("history", "pool.history", lambda p: {"name": p["pool"], "last": 1000}),
        ),
        more=_day,
    ),
    Page(
        path="/pools/{pool}/turn",
        title="Next cycle",
        section="Pools",
        template="pool_turn.html",
        reads=(PageRead("turn", "pool.explain", named(name="pool")),),
    ),
)

_BACK = page_of("pools", "name")
QUESTIONS = (
    Question(
        endpoint="pool.scale",
        text=one("Change the sizes of"),
        button="Change",
        back=_BACK,
        choices=(
            Choice("min", "Always at least", "number"),
            Choice("spare", "Ready for the next users", "number"),
            Choice("max", "At most", "number"),
        ),
    ),
    Question(
        endpoint="pool.drain",
        text=one("Drain"),
        button="Drain",
        back=_BACK,
        choices=(Choice("off", "End draining instead"),),
    ),
    Question(
        endpoint="pool.push-image",
        text=one("Change the image of"),
        button="Change",
        back=_BACK,
        choices=(Choice("image", "Image", "text", "NAME@VERSION; users at work keep theirs"),),
    ),
    Question(
        endpoint="pool.delete",
        text=one("Delete"),
        button="Delete",
        back=at("/pools"),
        ends_something=True,
    ),
    Question(
        endpoint="pool.assign",
        text=one("Give a user a desktop of"),
        button="Give",
        back=_BACK,
        choices=(Choice("user", "User", "text"), Choice("groups", "Group of the user", "text")),
    ),
    Question(
        endpoint="pool.release",
        text=lambda asked: f"End the session of {asked.get('user', '')} in {asked.get('name', '')}",
        button="End it",
        back=_BACK,
        choices=(Choice("for_good", "Also delete what the user owns", hint="With its disks."),),
        ends_something=True,
    ),
)
