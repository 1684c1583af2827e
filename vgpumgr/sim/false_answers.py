"""A host that says what is not so: parts of its answers replaced before they are sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import UsageError

# In a path: every name of an object, every number of a list that is there.
ANY = "*"
# In the place of a value: the part is not there at all.
ABSENT = "absent"


class Lies:
    """What is replaced, by verb of the helper or of libvirt: ``(path, JSON)``."""

    def __init__(self) -> None:
        self._told: dict[str, list[tuple[str, str]]] = {}

    def add(self, verb: str, path: str, text: str) -> None:
        """``path`` is dotted (``result.nvml.gpus.0.name``; empty: all), ``text`` JSON or ABSENT."""
        if text != ABSENT:
            try:
                json.loads(text)
            except ValueError:
                raise UsageError(f"{text[:60]!r} is not JSON", next=f"JSON, or {ABSENT}") from None
        self._told.setdefault(verb, []).append((path, text))

    def clear(self) -> None:
        """The truth from now on."""
        self._told.clear()

    def told(self, verb: str, answer: Any) -> Any:
        """The answer with its lies in place."""
        found = self._told.get(verb)
        if not found:
            return answer
        plain = {"": json.loads(json.dumps(to_plain(answer)))}
        for path, text in found:
            _put(plain, ["", *(path.split(".") if path else ())], text)
        return plain.get("")

    def words(self) -> tuple[str, ...]:
        """In the words of ``inject``, cut where they are long."""
        told = ((verb, *each) for verb, lies in self._told.items() for each in lies)
        return tuple(f"lie {verb} {path} {text[:60]}" for verb, path, text in told)


def _put(into: Any, path: Sequence[str], text: str) -> None:
    name, *rest = path
    for key in _keys(into, name):
        if rest:
            _put(into[key], rest, text)
        elif text == ABSENT:
            del into[key]
        else:
            into[key] = json.loads(text)


def _keys(into: Any, name: str) -> list[Any]:
    if isinstance(into, Mapping):
        return list(into) if name == ANY else [name]
    if isinstance(into, list):
        numbers = range(len(into))
        return list(numbers) if name == ANY else [n for n in numbers if name == str(n)]
    return []
