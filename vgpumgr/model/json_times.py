"""Times in JSON: values hold Unix seconds, their JSON has text, recognised by the key's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

# The names of times: a number under one is Unix seconds.
_TIMES = frozenset({"at", "since", "until"})
_TIME_ENDS = ("_at", "_since", "_until", "_by")
_TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def time_text(at: float) -> str:
    """A Unix time as every JSON of ours has it: ``2026-11-24T10:00:00.000Z``."""
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def instant(text: str) -> float:
    """``2026-11-24T10:00:00Z``, or another time with its zone, as Unix seconds; ValueError."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text} has no zone")
    return found.timestamp()


def timed(value: object) -> object:
    """The same with its Unix times as text: the numbers under names that times have."""
    if isinstance(value, Mapping):
        return {key: _timed(key, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [timed(each) for each in value]
    return value


def untimed(value: object) -> Any:
    """What :func:`timed` wrote, with Unix times again."""
    if isinstance(value, dict):
        return {key: _untimed(key, each) for key, each in value.items()}
    if isinstance(value, list):
        return [untimed(each) for each in value]
    return value


def _is_time(key: object) -> bool:
    return isinstance(key, str) and (key in _TIMES or key.endswith(_TIME_ENDS))


def _timed(key: object, value: object) -> object:
    if _is_time(key) and isinstance(value, int | float) and not isinstance(value, bool):
        return time_text(value)
    return timed(value)


def _untimed(key: object, value: object) -> object:
    if _is_time(key) and isinstance(value, str) and _TEXT.fullmatch(value):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            return value
    return untimed(value)
