"""Types of endpoints as pydantic has them: parameters to check, answers to document."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Hashable
from functools import cache, reduce
from operator import or_
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from vgpumgr import API_VERSION
from vgpumgr.api.pages import MOST_ITEMS
from vgpumgr.api.problems import Failure
from vgpumgr.endpoints.endpoint import AnyEndpoint, ParameterLimits

PageSize = Annotated[int, Field(ge=1, le=MOST_ITEMS)] | SkipJsonSchema[None]
PageAfter = Annotated[str, Field(min_length=1, max_length=4096)] | SkipJsonSchema[None]
MAX_TEXT = 4096
"""The longest text of a parameter that says nothing else."""
_MOST_INT = (1 << 53) - 1
"""The largest integer that every reader of JSON reads as it is."""
_FIRST_TIME, _LAST_TIME = -62_135_596_800.0, 253_402_300_799.0
"""The years 1 to 9999 in Unix seconds: no number of a parameter is a time outside of them."""


def path_names(endpoint: AnyEndpoint) -> tuple[str, ...]:
    """The parameters that are in the path."""
    names = (field.name for field in dataclasses.fields(endpoint.asks))
    return tuple(name for name in names if f"{{{name}}}" in endpoint.path)


def path_types(endpoint: AnyEndpoint) -> dict[str, Any]:
    """Their types."""
    hints = get_type_hints(endpoint.asks, include_extras=True)
    return {name: _checked(hints[name]) for name in path_names(endpoint)}


def other_parameters(endpoint: AnyEndpoint) -> type[BaseModel] | None:
    """A model of what is in the query or body; None where there is nothing."""
    hints = get_type_hints(endpoint.asks, include_extras=True)
    inside = path_names(endpoint)
    fields: dict[str, Any] = {
        field.name: (_checked(hints[field.name]), _default(field))
        for field in dataclasses.fields(endpoint.asks)
        if field.name not in inside
    }
    if is_paged(endpoint):
        fields |= {"page_size": (PageSize, None), "page_after": (PageAfter, None)}
    if not fields:
        return None
    made: type[BaseModel] = create_model(
        endpoint.asks.__name__, __config__=ConfigDict(extra="forbid"), **fields
    )
    return made


@cache
def all_parameters(endpoint: AnyEndpoint) -> type[BaseModel]:
    """A model of every parameter, those in the path too."""
    hints = get_type_hints(endpoint.asks, include_extras=True)
    declared: dict[str, Any] = {
        field.name: (_checked(hints[field.name]), _default(field))
        for field in dataclasses.fields(endpoint.asks)
    }
    made: type[BaseModel] = create_model(
        endpoint.asks.__name__, __config__=ConfigDict(extra="forbid"), **declared
    )
    return made


def is_paged(endpoint: AnyEndpoint) -> bool:
    """Is the answer a list that may be had in pages? One with a limit of its own is not."""
    hints = get_type_hints(get_origin(endpoint.answers) or endpoint.answers)
    own = {field.name for field in dataclasses.fields(endpoint.asks)}
    return not endpoint.changes and "items" in hints and "limit" not in own


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is dataclasses.MISSING:
        return ...
    return list(field.default) if isinstance(field.default, tuple) else field.default


def _checked(hint: Any) -> Any:
    """The same with its limits for pydantic; tuples are lists, texts have a longest."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *notes = get_args(hint)
        limits = next((each for each in notes if isinstance(each, ParameterLimits)), None)
        if limits is None:
            return _checked(inner)
        if inner in _BOUNDS:
            return Annotated[inner, _field(limits), _BOUNDS[inner]]
        inner = inner if inner is str else _checked(inner)
        return Annotated[inner, _field(limits)]
    if origin is tuple:
        return list[_checked(get_args(hint)[0])]  # type: ignore[misc]
    if origin is dict:
        return dict[tuple(map(_checked, get_args(hint)))]  # type: ignore[misc]
    if origin in {Union, types.UnionType}:
        return reduce(or_, (_checked(each) for each in get_args(hint)))
    if hint is str:
        return Annotated[str, Field(max_length=MAX_TEXT)]
    return Annotated[hint, _BOUNDS[hint]] if hint in _BOUNDS else hint


def _exact_int(number: int) -> int:
    if abs(number) > _MOST_INT:
        raise ValueError(f"it is not between -{_MOST_INT} and {_MOST_INT}")
    return number


def _number_or_time(number: float) -> float:
    if not _FIRST_TIME <= number <= _LAST_TIME:  # nan is nowhere
        raise ValueError(f"it is not between {_FIRST_TIME:.0f} and {_LAST_TIME:.0f}")
    return number


_BOUNDS = {int: AfterValidator(_exact_int), float: AfterValidator(_number_or_time)}
"""Limits of every number; they are in no schema, where those of its own are."""


def _field(limits: ParameterLimits) -> Any:
    told = {f.name: getattr(limits, f.name) for f in dataclasses.fields(limits)}
    return Field(**{name: value for name, value in told.items() if value is not None})


def answer_type(endpoint: AnyEndpoint) -> Any:
    """The whole answer as a type, for the API's description."""
    return _whole(endpoint.kind, cast("Hashable", endpoint.answers))


@cache
def _whole(kind: str, answers: Any) -> Any:
    origin = get_origin(answers) or answers
    filled = dict(zip(getattr(origin, "__parameters__", ()), get_args(answers), strict=True))
    hints = get_type_hints(origin, include_extras=True)
    whole: dict[str, Any] = {
        "apiVersion": Literal[API_VERSION],
        "kind": Literal[kind],
        **{name: _filled(hint, filled) for name, hint in hints.items()},
        "messages": NotRequired[list[str]],
        "error": NotRequired[Failure],
    }
    if "items" in hints:
        whole["next_page"] = NotRequired[str]
    return TypedDict(kind, whole)  # type: ignore[operator]


def _filled(hint: Any, filled: dict[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return filled[hint]
    if get_origin(hint) is list:
        return list[_filled(get_args(hint)[0], filled)]  # type: ignore[misc]
    return hint
