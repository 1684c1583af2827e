"""The helper's JSON, read with every type checked: the host's word is not trusted either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from vgpumgr.model.errors import OutcomeUnknown

T = TypeVar("T")


class Answer:
    """One JSON object. Getters raise OutcomeUnknown naming the part that makes no sense.

    A part that is absent or null reads as the getter's default; unknown keys are ignored.
    """

    def __init__(self, data: object, where: str = "") -> None:
        if not isinstance(data, Mapping):
            raise _malformed(where or "the answer", data, "an object")
        self._data = data
        self._where = where

    def text(self, key: str, default: str = "") -> str:
        """Text, or ``default``."""
        found = self._get(key, str, "text")
        return default if found is None else found

    def maybe_text(self, key: str) -> str | None:
        """Text, or None."""
        return self._get(key, str, "text")

    def number(self, key: str, default: int = 0) -> int:
        """A whole number, or ``default``."""
        found = self.maybe_number(key)
        return default if found is None else found

    def maybe_number(self, key: str) -> int | None:
        """A whole number, or None."""
        found = self._get(key, int, "a whole number")
        if isinstance(found, bool):
            raise _malformed(self._path(key), found, "a whole number")
        return found

    def maybe_real(self, key: str) -> float | None:
        """A number, whole or not, or None."""
        found = self._data.get(key)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise _malformed(self._path(key), found, "a number")
        return float(found)

    def flag(self, key: str) -> bool:
        """True or false; false where it could not be read."""
        return bool(self.maybe_flag(key))

    def maybe_flag(self, key: str) -> bool | None:
        """True or false, or None."""
        return self._get(key, bool, "true or false")

    def mapping(self, key: str) -> Mapping[str, object]:
        """A free-form object, or an empty one."""
        return self._get(key, dict, "an object") or {}

    def child(self, key: str) -> Answer:
        """A nested object, or an empty one."""
        return Answer(self.mapping(key), self._path(key))

    def maybe_child(self, key: str) -> Answer | None:
        """A nested object, or None."""
        return self.child(key) if self.has(key) else None

    def names(self) -> tuple[str, ...]:
        """The keys of the object."""
        return tuple(self._data)

    def has(self, key: str) -> bool:
        """Whether the part is there and not null."""
        return self._data.get(key) is not None

    def objects(self, key: str) -> Iterator[Answer]:
        """The objects of a list."""
        for index, item in enumerate(self._list(key)):
            yield Answer(item, f"{self._path(key)}[{index}]")

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts of a list."""
        return tuple(self._items(key, str, "text"))

    def numbers(self, key: str) -> tuple[int, ...]:
        """The whole numbers of a list."""
        return tuple(self._items(key, int, "a whole number"))

    def _items(self, key: str, kind: type[T], wanted: str) -> Iterator[T]:
        for index, item in enumerate(self._list(key)):
            if not isinstance(item, kind):
                raise _malformed(f"{self._path(key)}[{index}]", item, wanted)
            yield item

    def _list(self, key: str) -> list[object]:
        return self._get(key, list, "a list") or []

    def _get(self, key: str, kind: type[T], wanted: str) -> T | None:
        found = self._data.get(key)
        if found is not None and not isinstance(found, kind):
            raise _malformed(self._path(key), found, wanted)
        return found

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key


def _malformed(where: str, found: object, wanted: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        "the helper's answer cannot be understood",
        why=f"{where}: {wanted} expected, found {repr(found)[:80]}",
        next="vgpumgr doctor",
    )
