"""The JSON of an experiment as text: a line per result and per row, so that a diff can be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def text(document: Mapping[str, Any]) -> str:
    """The document, ending with a newline."""
    members = (f"{json.dumps(key)}: {_value(value)}" for key, value in document.items())
    return "{\n" + ",\n".join(members) + "\n}\n"


def _value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"
    return json.dumps(value)
