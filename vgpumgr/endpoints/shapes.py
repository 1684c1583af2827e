"""Types that answers and parameters share: times, names, labels, lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from typing_extensions import TypedDict

from vgpumgr.endpoints.endpoint import ParameterLimits
from vgpumgr.model.errors import UsageError


class _DateTime:
    """Marks Unix seconds that are written as ``2026-11-24T10:00:00.000Z``."""

    def __get_pydantic_json_schema__(self, _core: Any, _handler: Any) -> dict[str, Any]:
        return {"type": "string", "format": "date-time"}


Time = Annotated[float, _DateTime()]
Name = Annotated[str, ParameterLimits(min_length=1, max_length=255)]
Labels = tuple[Annotated[str, ParameterLimits(max_length=600, pattern="^[^=]+=")], ...]
"""Labels that are looked for, ``KEY=VALUE`` each."""

I = TypeVar("I")  # noqa: E741


class ItemList(TypedDict, Generic[I]):
    """A list of items."""

    items: list[I]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No parameter at all."""


def selector(labels: Labels) -> tuple[tuple[str, str], ...]:
    """Pairs of key and value; UsageError for what is none."""
    pairs = [(text, *text.partition("=")) for text in labels]
    for text, key, equals, _ in pairs:
        if not equals or not key:
            raise UsageError(f"label {text}: not KEY=VALUE")
    return tuple((key, value) for _, key, _, value in pairs)


def matches(labels: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> bool:
    """Do the labels have every pair?"""
    return all(labels.get(key) == value for key, value in wanted)
