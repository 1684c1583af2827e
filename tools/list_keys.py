"""Writes a page of docs for each kind (vm.md, flavour.md, …): every key of every document.

What a key takes is from the JSON Schema that ``vgpumgr schema KIND`` prints, what it means and its
example from vgpumgr/spec/*_key_descriptions.py, the whole example from examples/. ``--check``
writes nothing and exits 1 where a page is out of date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vgpumgr.spec import json_schema
from vgpumgr.spec.document_schema import KEYS

ROOT = Path(__file__).parents[1]
EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "VM": "training.yaml",
        "Flavour": "flavours.yaml",
        "Layout": "layouts.yaml",
        "Pool": "pool.yaml",
        "Host": "hosts.yaml",
        "Fleet": "fleet.yaml",
    }
)
"""The file in examples/ that a kind's page shows whole."""
_HEAD = """# Every key of `kind: {kind}`

{about}

Written by `tools/list_keys.py` from the schema that `vgpumgr schema {kind}` prints for editors:
edit `vgpumgr/spec/`, not this page. A key in **bold** is required. Each example is one line of a
document. A file may hold several documents, separated by `---`.

## A whole file

`examples/{file}`:

```yaml
{example}```

## The keys
"""
_COLUMNS = "| key | type | default | unit | meaning | example |"
_SIZE, _TIME = "B, KiB, MiB, GiB, TiB", "s, m, h, d"


def page(kind: str) -> Path:
    """Where the keys of a kind are listed."""
    return ROOT / "docs" / f"{kind.lower()}.md"


def text(kind: str) -> str:
    """The page of a kind, as it is to be."""
    schema = json_schema(kind)
    file = EXAMPLES[kind]
    example = (ROOT / "examples" / file).read_text()
    lines = [_HEAD.format(kind=kind, about=_words(schema), file=file, example=example)]
    lines += _table(kind, kind, schema)
    for name, model in schema.get("$defs", {}).items():
        if "properties" in model and _home(name) == kind:
            lines += ["", f"## {_title(name)}", "", _words(model), "", *_table(kind, name, model)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the pages, or say which is out of date."""
    late = [kind for kind in EXAMPLES if not _is_written(kind)]
    if "--check" not in sys.argv[1:]:
        for kind in late:
            page(kind).write_text(text(kind))
        return 0
    for kind in late:
        print(f"{page(kind).name} is not what the schema says")
    return 1 if late else 0


def _is_written(kind: str) -> bool:
    return page(kind).exists() and page(kind).read_text() == text(kind)


def _home(model: str) -> str:
    """The kind whose page has a part's table: the first that has the part."""
    return next(kind for kind in EXAMPLES if model in json_schema(kind).get("$defs", {}))


def _table(kind: str, name: str, model: dict[str, Any]) -> Iterator[str]:
    required = model.get("required", [])
    yield _COLUMNS
    yield "|---" * 6 + "|"
    for key, part in model["properties"].items():
        told = KEYS[name][key]
        cells = [
            f"**`{key}`**" if key in required else f"`{key}`",
            _takes(part, kind),
            "" if key in required else _default(part.get("default")),
            told.unit or _unit(part) or "–",
            told.sentence,
            f"`{told.example}`",
        ]
        yield f"| {' | '.join(cells)} |"


def _takes(part: dict[str, Any], kind: str) -> str:
    if "$ref" in part:
        model = part["$ref"].rpartition("/")[2]
        place = "" if _home(model) == kind else page(_home(model)).name
        return f"[{_title(model)}]({place}#{_title(model)})"
    if ways := part.get("anyOf") or part.get("oneOf"):
        each = [_takes(other, kind) for other in ways if other.get("type") != "null"]
        return " or ".join(dict.fromkeys(each))
    if "const" in part:
        return f"`{part['const']}`"
    if "enum" in part:
        return ", ".join(f"`{word}`" for word in part["enum"])
    match part.get("type"):
        case "array":
            return f"list of {_takes(part.get('items', {}), kind)}"
        case "integer" | "number":
            return _range(part)
        case "boolean":
            return "`true`, `false`"
        case "object":
            return "map"
    return {_SIZE: "size", _TIME: "time", "": "text"}[_unit(part)]


def _unit(part: dict[str, Any]) -> str:
    """The units that a value is written with: of sizes and times."""
    for other in (*part.get("anyOf", []), *part.get("oneOf", [])):
        if unit := _unit(other):
            return unit
    if part.get("type") != "string":
        return ""
    pattern = part.get("pattern", "")
    if "TiB" in pattern or "1GiB" in part.get("examples", []):
        return _SIZE
    return _TIME if "[smhd]" in pattern else ""


def _range(part: dict[str, Any]) -> str:
    low, high = part.get("minimum"), part.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}"
    return "number" if low is None else f"{low} or more"


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
