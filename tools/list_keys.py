"""Writes docs/keys.md: every key of every document, from the JSON Schema of `vgpumgr schema`.

``--check`` writes nothing and exits 1 where the page is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from vgpumgr.spec import json_schema

PAGE = Path(__file__).parents[1] / "docs" / "keys.md"
KINDS = ("VM", "Layout", "Pool", "Host", "Fleet")
HEAD = """# Every key of every document

Written by `tools/list_keys.py` from the JSON Schema that `vgpumgr schema KIND` prints, for editors;
do not edit it here. A file holds documents of these kinds, separated by `---`. Sizes are like
`8GiB`, times like `15m`. A key in **bold** must be there.
"""


def main() -> int:
    text = "\n".join([HEAD, *(line for kind in KINDS for line in _kind(kind))]) + "\n"
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    print(f"{PAGE.name} is not what the schema says")
    return 1


_told: set[str] = set()


def _kind(kind: str) -> list[str]:
    schema = json_schema(kind)
    found = [f"## kind: {kind}", "", _words(schema), "", *_table(schema)]
    for name, model in schema.get("$defs", {}).items():
        if "properties" in model and name not in _told:
            _told.add(name)
            found += ["", f"### {_title(name)}", "", _words(model), "", *_table(model)]
    return [*found, ""]


def _table(model: dict[str, Any]) -> list[str]:
    required = model.get("required", [])
    rows = ["| key | what it takes | left out | |", "|---|---|---|---|"]
    for key, part in model["properties"].items():
        name = f"**`{key}`**" if key in required else f"`{key}`"
        left_out = "" if key in required else _default(part.get("default"))
        rows.append(f"| {name} | {_takes(part)} | {left_out} | {part['description']} |")
    return rows


def _takes(part: dict[str, Any]) -> str:
    if "$ref" in part:
        name = _title(part["$ref"].rpartition("/")[2])
        return f"[{name}](#{name.replace(' ', '-')})"
    if "anyOf" in part:
        each = [_takes(other) for other in part["anyOf"] if other.get("type") != "null"]
        return " or ".join(dict.fromkeys(each))
    if "const" in part:
        return f"`{part['const']}`"
    if "enum" in part:
        return ", ".join(f"`{word}`" for word in part["enum"])
    match part.get("type"):
        case "array":
            return f"list of {_takes(part.get('items', {}))}"
        case "integer" | "number":
            return _range(part)
        case "boolean":
            return "`true`, `false`"
        case "object":
            return "a map"
    return _text(part)


def _text(part: dict[str, Any]) -> str:
    pattern = part.get("pattern", "")
    if "TiB" in pattern:
        return "a size"
    return "a time" if "[smhd]" in pattern else "text"


def _range(part: dict[str, Any]) -> str:
    low, high = part.get("minimum"), part.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}"
    return "a number" if low is None else f"{low} or more"


def _default(value: Any) -> str:
    if value in (None, [], {}) or (isinstance(value, dict) and not any(value.values())):
        return "–"
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def _title(model: str) -> str:
    """``SimHostModel`` → ``simhost``."""
    return model.removesuffix("Model").lower()


def _words(model: dict[str, Any]) -> str:
    return " ".join(model.get("description", "").split()).replace("``", "`")


if __name__ == "__main__":
    sys.exit(main())
