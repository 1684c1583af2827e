"""The shipped JSON: one file per YAML source, read once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent / "data"


@cache
def table(name: str) -> dict[str, Any]:
    """The parsed ``data/<name>.json``."""
    return dict(json.loads((_DATA / f"{name}.json").read_bytes()))


@cache
def sources(name: str, keys: str) -> str:
    """``"ogkm+cfg17"`` spelt out from the table's own list of sources."""
    known = table(name)["sources"]
    return "; ".join(str(known.get(key, key)) for key in keys.split("+"))
