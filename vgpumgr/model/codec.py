"""Values to plain JSON-able data and back, by their type hints."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_plain(value: object) -> Any:
    """Dataclasses become dicts, tuples and sets lists, enums their values; keys become text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in _fields(type(value))}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(to_plain(item) for item in value)
    return value


def from_plain(kind: type[T], data: object) -> T:
    """The reverse of :func:`to_plain`; unknown keys are ignored, missing ones take defaults."""
    return typing.cast("T", _build(kind, data))


def _build(kind: Any, data: Any) -> Any:
    origin = get_origin(kind)
    if origin in {Union, types.UnionType}:
        if data is None:
            return None
        inner = next(arg for arg in get_args(kind) if arg is not type(None))
        return _build(inner, data)
    if origin is tuple:
        return _tuple(get_args(kind), data)
    if origin is frozenset:
        return frozenset(_build(get_args(kind)[0], item) for item in data)
    if origin in {Mapping, dict}:
        key_kind, value_kind = get_args(kind)
        return {_build(key_kind, key): _build(value_kind, item) for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, data)
    if isinstance(kind, type) and (issubclass(kind, Enum) or kind in {int, float, str}):
        return kind(data)
    return data


def _dataclass(kind: Any, data: Any) -> Any:
    hints = _fields(kind)
    return kind(**{name: _build(hints[name], data[name]) for name in hints if name in data})


def _tuple(args: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_build(args[0], item) for item in data)
    return tuple(_build(kind, item) for kind, item in zip(args, data, strict=True))


@cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
