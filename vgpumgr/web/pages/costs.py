"""Pages of showback: who had how much GPU time, what it cost, and the prices."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import yaml

from vgpumgr.web.documents import SOURCE
from vgpumgr.web.form_fields import utc_seconds
from vgpumgr.web.item_list import item_list
from vgpumgr.web.listing import Column, Listing, RowAction
from vgpumgr.web.page import Page, PageRead, Place
from vgpumgr.web.questions import Choice, Question, at, one

_BY = (("tenant", "Tenants"), ("pool", "Pools"), ("vm", "VMs"))
_PRICES = Listing(
    (
        Column("From", "begins_at", "when"),
        Column("Until", "until", "when"),
        Column("Currency", "currency"),
        Column("An hour of a whole GPU", "prices", "pairs"),
    ),
    (RowAction("price.remove", "Remove", {"begins_at": "name"}),),
    hint="model, currency",
    intro="From each time on these prices hold, until the next ones begin; * is any other model.",
)
_EXAMPLE = {"currency": "EUR", "decimals": 2, "prices": [{"model": "*", "gpu_hour": "1.00"}]}


def _span(place: Place) -> dict[str, str]:
    """The days that are looked at: those of the address, or this month."""
    begin = place.get("from") or f"{datetime.now(UTC):%Y-%m}-01"
    return {"from": begin, "to": place.get("to", "")}


def _report(place: Place) -> dict[str, Any]:
    days = _span(place)
    asked: dict[str, Any] = {"since": utc_seconds(days["from"]), "by": place.get("by") or "tenant"}
    return asked | ({"until": utc_seconds(days["to"])} if days["to"] else {})


def _spans(now: datetime) -> tuple[tuple[str, dict[str, str]], ...]:
    """What is looked at most, as days from and to."""
    month = now.replace(day=1)
    before = (month - timedelta(days=1)).replace(day=1)
    return (
        ("This month", {"from": f"{month:%Y-%m-%d}"}),
        ("Last month", {"from": f"{before:%Y-%m-%d}", "to": f"{month:%Y-%m-%d}"}),
        ("30 days", {"from": f"{now - timedelta(days=30):%Y-%m-%d}"}),
        ("This year", {"from": f"{now:%Y}-01-01"}),
    )


def _cost(answers: dict[str, Any], place: Place) -> dict[str, Any]:
    report, days = answers["report"], _span(place)
    kept = {key: text for key, text in days.items() if text}
    by = {"by": report["by"]}
    files = {key: text for key, text in _report(place).items() if key != "by"}
    return {
        "days": days,
        "columns": {"tenant": ("tenant",), "pool": ("tenant", "pool"), "vm": ("tenant", "vm")}[
            report["by"]
        ],
        "spans": [(text, "?" + urlencode({**each, **by})) for text, each in _spans(_now())],
        "kinds": [(each, text, "?" + urlencode({**kept, "by": each})) for each, text in _BY],
        "priced": "amount" in report,
        "hours": float(report["gpu_hours"]),
        "focus": urlencode(files),
    }


def _now() -> datetime:
    return datetime.now(UTC)


def _prices(answers: dict[str, Any], place: Place) -> Mapping[str, Any]:
    books = answers["answer"]["items"]
    items = [
        {**book, "prices": {each["model"]: each["gpu_hour"] for each in book["prices"]}}
        for book in books
    ]
    return {
        "listing": _PRICES,
        "list": item_list(items, place),
        "draft": _draft(books),
        "source": SOURCE,
    }


def _draft(books: list[dict[str, Any]]) -> str:
    """The newest prices as those of the next month, to be changed; without any, an example."""
    following = (_now().replace(day=1) + timedelta(days=31)).replace(day=1)
    document: dict[str, Any] = {"apiVersion": "vgpumgr/v1", "kind": "PriceBook"}
    document["from"] = f"{following if books else _now().replace(day=1):%Y-%m-%d}T00:00:00Z"
    newest = books[-1] if books else _EXAMPLE
    document |= {key: newest[key] for key in _EXAMPLE}
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


PAGES = (
    Page(
        path="/cost",
        title="Cost",
        section="Cost",
        template="cost.html",
        reads=(PageRead("report", "report.cost", _report, instead="report.usage"),),
        live=False,
        more=_cost,
    ),
    Page(
        path="/prices",
        title="Prices",
        section="Cost",
        template="prices.html",
        reads=(PageRead("answer", "price.list"),),
        more=_prices,
    ),
)

QUESTIONS = (
    Question(
        endpoint="price.apply",
        text=lambda _: "Set prices",
        button="Set them",
        back=at("/prices"),
        intro="Prices of an hour of a whole GPU by its model, from a time on: older ones of "
        "the same time are replaced. Reports of times gone by follow.",
        choices=(Choice("text", "Prices, as YAML", "area"),),
    ),
    Question(
        endpoint="price.remove",
        text=one("Remove the prices from", "begins_at"),
        button="Remove",
        back=at("/prices"),
        intro="The prices before hold on; reports of times gone by follow.",
        ends_something=True,
    ),
)
