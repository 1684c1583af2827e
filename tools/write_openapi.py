"""Writes docs/openapi.json, the description of the HTTP API, from the endpoints.

Within /v1 it may only grow: `python tools/write_openapi.py` refuses to write one in which something
is gone or narrower, and says what; `--check` exits 1 when the file is out of date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "docs" / "openapi.json"


def described() -> dict[str, Any]:
    """The description as the API gives it."""
    from vgpumgr.api.application import describe

    return describe()


def text(description: dict[str, Any]) -> str:
    """As it is kept in the tree."""
    return json.dumps(description, indent=1, sort_keys=True) + "\n"


def shrunk(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What was there and is not, or is narrower: paths, parameters, fields, types, values."""
    asked = _schemas_of_requests(before)
    return list(_shrunk(_by_name(before), _by_name(after), "", asked))


# Prose, which may change.
_WORDS = frozenset({"summary", "description", "title", "version", "info", "tags", "x-permission"})


def _schemas_of_requests(description: dict[str, Any]) -> frozenset[str]:
    """The paths of the schemas that requests are of."""
    found = set()
    for path in description.get("paths", {}).values():
        for operation in path.values():
            content = operation.get("requestBody", {}).get("content", {})
            found |= {each["schema"].get("$ref", "#").lstrip("#") for each in content.values()}
    return frozenset(found)


def _by_name(value: Any) -> Any:
    """The same with lists of parameters by their names."""
    if isinstance(value, dict):
        return {key: _by_name(each) for key, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        return {each["name"]: _by_name(each) for each in value}
    return value


def _shrunk(before: Any, after: Any, path: str, asked: frozenset[str]) -> Iterator[str]:
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield from _changed(before, after, path, asked)
        return
    for key, value in before.items():
        if key not in _WORDS and key not in after and key != "required":
            yield f"{path}/{key} is gone"
        elif key not in _WORDS and key != "required":
            yield from _shrunk(value, after[key], f"{path}/{key}", asked)
    needed, needs = before.get("required", []), after.get("required", [])
    yield from _changed(needed, needs, f"{path}/required", asked)


def _changed(before: Any, after: Any, path: str, asked: frozenset[str]) -> Iterator[str]:
    key, inside = path.rpartition("/")[2], path.rpartition("/")[0]
    if key == "enum":
        yield from (f"{path} has no {value} any more" for value in before if value not in after)
    elif key in {"type", "$ref", "pattern", "const"} and before != after:
        yield f"{path} was {before}, and is {after}"
    elif key == "required" and isinstance(before, list) and isinstance(after, list):
        more, fewer = set(after) - set(before), set(before) - set(after)
        yield from (f"{path}: {name} is new" for name in sorted(more) if inside in asked)
        yield from (f"{path}: {name} is gone" for name in sorted(fewer) if inside not in asked)
    elif key == "required" and not before and after:
        yield f"{path} is true now"


def main() -> int:
    """Write or check."""
    now, kept = described(), json.loads(TARGET.read_text()) if TARGET.exists() else {}
    if "--check" in sys.argv:
        return int(text(now) != text(kept))
    lost = shrunk(kept, now)
    if lost and "--narrower" not in sys.argv:
        print("\n".join(["within /v1 it may only grow:", *lost]))
        return 1
    TARGET.write_text(text(now))
    return 0


if __name__ == "__main__":
    sys.exit(main())
