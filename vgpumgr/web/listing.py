"""Pages that are a list: columns of an answer's items, and buttons for what can be added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.web.item_list import item_list
from vgpumgr.web.page import NO_PARAMETERS, Asks, Page, PageRead, Place


@dataclass(frozen=True, slots=True)
class Column:
    """A column: ``key`` of the item, shown as ``kind``: ``text``, ``number``, ``state``, ``when``,
    ``mib``, ``bytes``, ``list``, ``pairs``, ``lasting``, or a thing with a page (``host``, ``vm``,
    ``gpu``, ``pool``, ``image``, ``operation``, ``queued``).
    """

    title: str
    key: str
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class RowAction:
    """A button on each row that leads to a question; ``fields`` are parameters by keys of the item,
    ``only`` is a pair of a key and the values for which there is one.
    """

    endpoint: str
    label: str
    fields: Mapping[str, str]
    only: tuple[str, tuple[Any, ...]] = ("", ())


@dataclass(frozen=True, slots=True)
class NewThing:
    """A button above the list that leads to a question with fields of its own; ``fields`` is what
    they begin with.
    """

    endpoint: str
    label: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a list shows."""

    columns: tuple[Column, ...]
    actions: tuple[RowAction, ...] = ()
    news: tuple[NewThing, ...] = ()
    hint: str = "any words"
    intro: str = ""


def list_page(
    path: str,
    title: str,
    endpoint: str,
    listing: Listing,
    *,
    asked: Asks = NO_PARAMETERS,
    template: str = "listing.html",
    others: tuple[PageRead, ...] = (),
    section: str = "",
    live: bool = True,
) -> Page:
    """The page of a list, whose items the endpoint answers with."""

    def more(answers: dict[str, Any], place: Place) -> Mapping[str, Any]:
        return {"listing": listing, "list": item_list(answers["answer"]["items"], place)}

    return Page(
        path=path,
        title=title,
        section=section or title,
        live=live,
        template=template,
        reads=(PageRead("answer", endpoint, asked), *others),
        more=more,
    )
