"""Pages of what waits and what is reserved: the queue, bookings, quotas, licences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from vgpumgr.web.charts import AreaChart, area_chart, concurrent, longest, spread
from vgpumgr.web.item_list import item_list
from vgpumgr.web.listing import Column, Listing, NewThing, RowAction, list_page
from vgpumgr.web.page import Page, PageRead, Place, named
from vgpumgr.web.questions import Choice, Question, all_of, at, one, several

_QUEUE = Listing(
    (
        Column("VM", "name", "queued"),
        Column("Place", "position", "number"),
        Column("State", "state", "state"),
        Column("Why", "why"),
        Column("Terms", "terms"),
        Column("Since", "since", "when"),
        Column("Starts by", "starts_by", "when"),
        Column("Tenant", "tenant"),
    ),
    (RowAction("queue.cancel", "Cancel", {"names": "name"}, ("state", ("waiting",))),),
    hint="VM, tenant, why",
)
_BOOKINGS = Listing(
    (
        Column("Booking", "name"),
        Column("Group", "group"),
        Column("Profile", "profile"),
        Column("Desktops", "count", "number"),
        Column("In use", "in_use", "number"),
        Column("From", "starts_at", "when"),
        Column("To", "ends_at", "when"),
        Column("State", "state", "state"),
        Column("Pool", "pool", "pool"),
        Column("Missing", "missing", "number"),
    ),
    (RowAction("booking.delete", "Delete", {"name": "name"}),),
    (NewThing("booking.create", "New booking"),),
    hint="group, profile, pool",
)
_LICENCES = Listing(
    (
        Column("Edition", "name"),
        Column("Product", "product"),
        Column("Series", "series"),
        Column("Seats", "seats", "number"),
        Column("Used", "used", "number"),
        Column("Left", "left", "number"),
    ),
    (
        RowAction("licence.set", "Declare seats", {"edition": "name", "seats": "seats"}),
        RowAction("licence.delete", "Count no more", {"edition": "name"}),
    ),
    hint="edition, product",
)
_AMOUNTS = (
    ("gpu_memory_mib", "GPU memory"),
    ("gpus", "GPU parts"),
    ("vcpus", "vCPUs"),
    ("vms", "VMs"),
    ("storage_bytes", "Storage"),
)
_NO_LIMIT = (("none", "no limit"),)


def _queue(answers: dict[str, Any], place: Place) -> Mapping[str, Any]:
    items = answers["answer"]["items"]
    now = datetime.now(UTC)
    waits = {
        state: [_waited(each, now) for each in items if each["state"] == state]
        for state in ("waiting", "running")
    }
    rows = spread(waits["waiting"], waits["running"])
    pictures = _pictures(items, waits["waiting"], now)
    return {"listing": _QUEUE, "list": item_list(items, place), "waits": rows, **pictures}


_PARTS = 84
"""Of the last week: two hours each."""


def _pictures(
    items: Sequence[Mapping[str, Any]], waiting: Sequence[float], now: datetime
) -> dict[str, AreaChart]:
    """How many waited at once over the last week, and how long those waited that started then."""
    begin = now - timedelta(days=7)
    came = [
        (datetime.fromisoformat(each["since"]), _started(each))
        for each in items
        if each["state"] in {"waiting", "running"}
    ]
    line = concurrent(came, begin, now, _PARTS)
    ends = [(until, (until - since).total_seconds()) for since, until in came if until]
    times, seconds = longest(ends, begin, now, _PARTS)
    minutes = [round(each / 60, 1) for each in seconds]
    return {
        "line": area_chart(*line, None, "VMs", len(waiting)),
        "longest": area_chart(times, minutes, None, "minutes", max(waiting, default=0.0) / 60),
    }


def _started(entry: Mapping[str, Any]) -> datetime | None:
    return datetime.fromisoformat(entry["started_at"]) if entry["started_at"] else None


def _waited(entry: Mapping[str, Any], now: datetime) -> float:
    """For how many seconds a VM has waited, or waited until it started."""
    return ((_started(entry) or now) - datetime.fromisoformat(entry["since"])).total_seconds()


def _quotas(answers: dict[str, Any], place: Place) -> Mapping[str, Any]:
    found = item_list(answers["answer"]["items"], place)
    changes = {each["tenant"]: _as_set(each) for each in found.items}
    return {"list": found, "amounts": _AMOUNTS, "changes": changes}


def _as_set(quota: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a form that sets it as it is."""
    limits, pairs = quota["limits"], {"reserved": quota["reserved"], **quota["limits"]}
    texts = {key: " ".join(f"{k}={v}" for k, v in pairs[key].items()) for key in _MAPPINGS}
    amounts = {key: limits[key] for key, _ in _AMOUNTS if limits[key] is not None}
    return {"tenant": quota["tenant"], **amounts, **texts, "weight": quota["weight"]}


_MAPPINGS = ("profiles", "reserved")

PAGES = (
    Page(
        path="/queue",
        title="Queue",
        section="Queue",
        template="queue.html",
        reads=(PageRead("answer", "queue.list"),),
        more=_queue,
    ),
    Page(
        path="/queue:turn",
        title="Next cycle",
        section="Queue",
        template="queue_turn.html",
        reads=(PageRead("turn", "queue.explain"),),
    ),
    Page(
        path="/queue/{queued}",
        title="Queue entry",
        section="Queue",
        template="queue_entry.html",
        reads=(PageRead("entry", "queue.show", named(name="queued")),),
    ),
    list_page(
        "/bookings",
        "Bookings",
        "booking.list",
        _BOOKINGS,
        asked=lambda place: {"past": True} if place.get("past") else {},
        template="bookings.html",
    ),
    list_page("/licences", "Licences", "licence.list", _LICENCES),
    Page(
        path="/quotas",
        title="Quotas",
        section="Quotas",
        template="quotas.html",
        reads=(PageRead("answer", "quota.list"),),
        more=_quotas,
    ),
)


QUESTIONS = (
    Question(
        endpoint="queue.cancel",
        text=several("Cancel", "waiting VM"),
        button="Cancel it",
        back=at("/queue"),
        ends_something=True,
    ),
    Question(
        endpoint="booking.create",
        text=lambda _: "Book desktops",
        button="Book",
        back=at("/bookings"),
        choices=(
            Choice(
                "group", "For the group", "text", options=all_of("pools", "groups"), required=True
            ),
            Choice("profile", "Profile", "text", options=all_of("pools", "profile"), required=True),
            Choice("count", "Desktops", "number", required=True),
            Choice("begins", "From", "moment", required=True),
            Choice("ends", "To", "moment", required=True),
        ),
        reads=(PageRead("pools", "pool.list", needed=False),),
        intro="A pool of that profile that is for the group serves it. "
        "Times are by the clock of its time zone.",
    ),
    Question(
        endpoint="booking.delete",
        text=one("Delete booking"),
        button="Delete",
        back=at("/bookings"),
        ends_something=True,
    ),
    Question(
        endpoint="quota.set",
        text=one("Set the quota", "tenant", "of"),
        button="Set",
        back=at("/quotas"),
        choices=(
            Choice("tenant", "Tenant", "text", required=True),
            Choice("gpu_memory_mib", "GPU memory at most, in MiB", "text", options=_NO_LIMIT),
            Choice("gpus", "GPU parts at most", "text", options=_NO_LIMIT),
            Choice("vcpus", "vCPUs at most", "text", options=_NO_LIMIT),
            Choice("vms", "VMs at most", "text", options=_NO_LIMIT),
            Choice("storage_bytes", "Storage at most, in bytes", "text", options=_NO_LIMIT),
            Choice("profiles", "Of a profile at most", "text", "A40-8Q=10 T4-4Q=none"),
            Choice("reserved", "Kept for it in the queue", "text", "A40-8Q=2"),
            Choice("weight", "Weight in the queue", "number"),
        ),
        intro="What is left empty stays as it is; none is no limit. What is held already stays.",
    ),
    Question(
        endpoint="licence.set",
        text=one("Declare the seats", "edition", "of"),
        button="Declare",
        back=at("/licences"),
        choices=(
            Choice("edition", "Edition", "text", required=True),
            Choice("seats", "Seats of the licence server", "number", required=True),
        ),
        intro="A VM for which no seat is left is refused, or waits. Nothing is stopped.",
    ),
    Question(
        endpoint="licence.delete",
        text=one("Count no more the seats of", "edition"),
        button="Count no more",
        back=at("/licences"),
        ends_something=True,
    ),
    Question(
        endpoint="quota.delete",
        text=one("Remove the quota of", "tenant"),
        button="Remove",
        back=at("/quotas"),
        ends_something=True,
    ),
)
