"""Pages of pools of desktops."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from vgpumgr.web.charts import area_chart, concurrent
from vgpumgr.web.item_list import item_list
from vgpumgr.web.listing import Column, Listing
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Choice, Question, at, names_of, one, page_of

SESSIONS = 5000
"""Of a pool, the last ones that are looked at."""
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


def _list(answers: dict[str, Any], place: Place) -> Mapping[str, Any]:
    found = item_list(answers["answer"]["items"], place)
    return {"listing": _LIST, "list": found, "draft": _draft(answers)}


def _draft(answers: Mapping[str, Any]) -> str:
    """A pool to begin with, of an image and a profile that are there."""
    images = (answers["images"] or {"items": ()})["items"]
    ready = [each["name"] for each in images if each["state"] == "ready"]
    fits = [each for each in (answers["capacity"] or {"items": ()})["items"] if each["fits"]]
    document: dict[str, Any] = {"apiVersion": "vgpumgr/v1", "kind": "Pool", "name": "desktops"}
    document |= {"image": ready[-1] if ready else "NAME@VERSION"}
    document |= {"gpus": [{"profile": fits[0]["profile"] if fits else "A40-4Q"}]}
    document |= {"vcpus": 2, "memory": "4GiB", "console": True, "min": 1, "max": 4}
    document |= {"entitlement": {"groups": ["GROUP"]}}
    return str(yaml.safe_dump(document, sort_keys=False))


def _last_day(place: Place) -> dict[str, Any]:
    since = time.time() - timedelta(days=1).total_seconds()
    return {"name": place["pool"], "last": SESSIONS, "since": since}


def _day(answers: dict[str, Any], _: Place) -> dict[str, Any]:
    """The sessions of the last day, by quarters of an hour; of less where not all are told."""
    items = answers["history"]["items"]
    spans = [(datetime.fromisoformat(each["since"]), _time(each["closed_at"])) for each in items]
    end = datetime.now(UTC)
    begin = end - timedelta(days=1)
    if len(items) >= SESSIONS:
        begin = max(begin, spans[-1][0])
    times, values = concurrent(spans, begin, end, 96)
    now = sum(until is None for _, until in spans)
    return {"picture": area_chart(times, values, answers["pool"]["max"], "desktops", now)}


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


PAGES = (
    Page(
        path="/pools",
        title="Pools",
        section="Pools",
        template="pools.html",
        reads=(
            PageRead("answer", "pool.list"),
            PageRead("images", "image.list", needed=False),
            PageRead("capacity", "capacity.list", lambda _: {"gauge": False}, needed=False),
        ),
        more=_list,
    ),
    Page(
        path="/pools/{pool}",
        title="Pool",
        section="Pools",
        template="pool.html",
        reads=(
            PageRead("pool", "pool.show", named(name="pool")),
            PageRead("history", "pool.history", _last_day),
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
        text=lambda asked: (
            f"{'End the drain of' if asked.get('off') else 'Drain'} {asked.get('name', '')}"
        ),
        button="Do it",
        back=_BACK,
    ),
    Question(
        endpoint="pool.push-image",
        text=one("Change the image of"),
        button="Change",
        back=_BACK,
        choices=(
            Choice(
                *("image", "Image", "text", "NAME@VERSION; users at work keep theirs"),
                options=names_of("images"),
                required=True,
            ),
        ),
        reads=(PageRead("images", "image.list", needed=False),),
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
        choices=(
            Choice("user", "User", "text", "As a login names them", required=True),
            Choice("groups", "Groups of the user", "lines", "One a line"),
        ),
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
