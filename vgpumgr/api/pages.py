"""Lists in pages: each begins after the last item of the one before, whatever came or went between.

Items are in the order of their names then. A token names the last item; it is no secret.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from vgpumgr.model.errors import UsageError

MOST_ITEMS = 1000
_LONGEST = 4096
Key = tuple[str, str]


def page(whole: Mapping[str, Any], size: int, after: str = "") -> dict[str, Any]:
    """The items after those of the page whose ``next_page`` is ``after``, at most ``size``;
    UsageError where that is no token of ours.
    """
    last = _read(after) if after else None
    items = sorted(whole["items"], key=_key)
    left = items if last is None else [each for each in items if _key(each) > last]
    shown = left[:size]
    found = {**whole, "items": shown}
    if len(left) > size:
        found["next_page"] = _token(_key(shown[-1]))
    return found


def _key(item: Mapping[str, Any]) -> Key:
    """A name, and what tells items of one name apart."""
    rest = (item.get(name) for name in ("id", "host", "device", "role", "tenant"))
    return str(item.get("name", "")), "\x00".join(str(each) for each in rest)


def _token(key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def _read(token: str) -> Key:
    try:
        padded = token[:_LONGEST] + "=" * (-len(token) % 4)
        name, rest = json.loads(base64.urlsafe_b64decode(padded.encode()))
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(
            "that is no page", next="begin without page_after, and use each next_page"
        ) from error
    if not isinstance(name, str) or not isinstance(rest, str):
        raise UsageError("that is no page", next="begin without page_after, and use each next_page")
    return name, rest
