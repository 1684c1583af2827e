"""Long lists: the items that a filter's words are in, and a page of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

ON_A_PAGE = 100
Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ItemList:
    """The items that are shown, of ``total`` that match. ``before`` and ``after`` are the queries
    of the neighbouring pages; empty where there are none. ``others`` are the other words of the
    address.
    """

    items: Sequence[Item]
    total: int
    first: int
    words: str
    before: str
    after: str
    others: Mapping[str, str]


def item_list(items: Iterable[Item], place: Mapping[str, str]) -> ItemList:
    """The page that ``place`` names: ``q`` has words that all must be in an item, ``page`` counts
    from 1.
    """
    words = place.get("q", "").strip()
    found = [each for each in items if _has(each, words.lower().split())]
    pages = max(1, -(-len(found) // ON_A_PAGE))
    number = min(max(_number(place.get("page", "1")), 1), pages)
    first = (number - 1) * ON_A_PAGE

    def query(of: int) -> str:
        if not 1 <= of <= pages:
            return ""
        return "?" + urlencode({**{k: v for k, v in place.items() if k != "page"}, "page": of})

    return ItemList(
        items=found[first : first + ON_A_PAGE],
        total=len(found),
        first=first + 1 if found else 0,
        words=words,
        before=query(number - 1),
        after=query(number + 1),
        others={key: each for key, each in place.items() if key not in {"q", "page"}},
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 1


def _has(item: Item, words: Sequence[str]) -> bool:
    if not words:
        return True
    text = " ".join(_texts(item)).lower()
    return all(each in text for each in words)


def _texts(value: Any) -> Iterable[str]:
    """Every text and number in it, keys of labels too."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif value is not None:
        yield str(value)
