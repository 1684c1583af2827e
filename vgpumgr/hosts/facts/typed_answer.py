"""The helper's JSON, read with type and range of every part checked: hosts are not trusted."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from vgpumgr.model.errors import OutcomeUnknown
from vgpumgr.model.formats import SURROGATE, PciAddress, spoken

T = TypeVar("T")
W = TypeVar("W", bound=StrEnum)

# What JSON's readers everywhere, SQLite and NumPy hold exactly.
MOST = 2**53 - 1
LONGEST_TEXT = 4096
# 52 bits of physical addresses (AMD64 manual, volume 2).
MOST_MIB = 2**32
MOST_ITEMS = 4096
# Free-form objects (a claim's ``wanted``) are small and flat.
MOST_PLAIN = 8192
_DEEPEST = 8
_SHOWN = 60


class TypedAnswer:
    """One JSON object. Getters raise OutcomeUnknown naming the part that makes no sense.

    A part that is absent or null reads as the getter's default; unknown keys are ignored. ``host``
    is who gave the answer.
    """

    __slots__ = ("_data", "_host", "_where")

    def __init__(self, data: object, where: str = "", host: str = "") -> None:
        self._where = where
        self._host = host
        if not isinstance(data, Mapping):
            raise nonsense(host, where or "the answer", data, "an object")
        self._data = data

    def text(self, key: str, default: str = "") -> str:
        """Text, or ``default``."""
        found = self.maybe_text(key)
        return default if found is None else found

    def maybe_text(self, key: str) -> str | None:
        """Text of at most 4,096 characters that UTF-8 can hold, or None."""
        found = self._data.get(key)
        return None if found is None else self._text(found, key)

    def words(self, key: str) -> str:
        """Text for people alone: cut where it is long, and what UTF-8 cannot hold replaced."""
        return spoken(self._get(key, str, "text") or "")

    def word(self, key: str, words: type[W]) -> W | None:
        """One of our words, or None."""
        found = self.maybe_text(key)
        if found is None:
            return None
        try:
            return words(found)
        except ValueError:
            raise self.nonsense(key, found, f"one of {', '.join(words)}") from None

    def number(self, key: str, default: int = 0, *, least: int = 0, most: int = MOST) -> int:
        """A whole number from ``least`` to ``most``, or ``default``."""
        found = self.maybe_number(key, least=least, most=most)
        return default if found is None else found

    def maybe_number(self, key: str, *, least: int = 0, most: int = MOST) -> int | None:
        """A whole number from ``least`` to ``most``, or None."""
        found = self._data.get(key)
        return None if found is None else self._number(found, key, least, most)

    def maybe_real(self, key: str) -> float | None:
        """A number, whole or not, or None; as far from 0 as whole numbers may be."""
        found = self._data.get(key)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float) or not _within(found):
            raise self.nonsense(key, found, "a number")
        return float(found)

    def flag(self, key: str) -> bool:
        """True or false; false where it could not be read."""
        return bool(self.maybe_flag(key))

    def maybe_flag(self, key: str) -> bool | None:
        """True or false, or None."""
        return self._get(key, bool, "true or false")

    def mapping(self, key: str) -> Mapping[str, object]:
        """A free-form object, or an empty one: small, flat, its numbers and texts in range."""
        found = self._object(key)
        if found:
            Plain(self._host).check(found, self._path(key), _DEEPEST)
        return found

    def child(self, key: str) -> TypedAnswer:
        """A nested object, or an empty one."""
        return TypedAnswer(self._object(key), self._path(key), self._host)

    def maybe_child(self, key: str) -> TypedAnswer | None:
        """A nested object, or None."""
        return self.child(key) if self.has(key) else None

    def as_probe(self) -> TypedAnswer:
        """The one GPU of ``gpu_look`` as a probe would list it."""
        device, nvml = self._data.get("device"), self._data.get("nvml")
        listed = {"devices": [device] if device is not None else []}
        told = {"gpus": [nvml] if nvml is not None else []}
        return TypedAnswer({**listed, "nvml": told}, self._where, self._host)

    def names(self, *, most: int = MOST_ITEMS) -> tuple[str, ...]:
        """The keys of the object."""
        if len(self._data) > most:
            raise nonsense(self._host, self._where, len(self._data), f"at most {most} names")
        return tuple(self._text(name, "a name") for name in self._data)

    def has(self, key: str) -> bool:
        """Whether the part is there and not null."""
        return self._data.get(key) is not None

    def need(self, *keys: str) -> None:
        """Refuse an answer without these parts; null is one."""
        for key in keys:
            if key not in self._data:
                raise nonsense(self._host, self._path(key), None, "something")

    def address(self, key: str) -> str:
        """A PCI address as the kernel prints it."""
        return self._address(self.text(key), key)

    def objects(self, key: str, *, most: int = MOST_ITEMS) -> Iterator[TypedAnswer]:
        """The objects of a list of at most ``most``."""
        for index, item in enumerate(self._list(key, most)):
            yield TypedAnswer(item, f"{self._path(key)}[{index}]", self._host)

    def lists(self, key: str, *, most: int = MOST_ITEMS) -> Iterator[list[object]]:
        """The lists of a list of at most ``most``."""
        for index, item in enumerate(self._list(key, most)):
            if not isinstance(item, list):
                raise self.nonsense(_item(key, index), item, "a list")
            yield item

    def texts(self, key: str, *, most: int = MOST_ITEMS) -> tuple[str, ...]:
        """The texts of a list of at most ``most``."""
        items = self._list(key, most)
        return tuple(self._text(item, key, index) for index, item in enumerate(items))

    def numbers(
        self, key: str, *, count: int = MOST_ITEMS, least: int = 0, most: int = MOST
    ) -> tuple[int, ...]:
        """The whole numbers of a list of at most ``count``."""
        items = enumerate(self._list(key, count))
        return tuple(self._number(item, key, least, most, index) for index, item in items)

    def once(self, key: str, found: Iterable[object]) -> None:
        """Refuse a list in which two things bear the same name, address or number."""
        seen: set[object] = set()
        for each in found:
            if each in seen:
                raise self.nonsense(key, each, "each of them once")
            seen.add(each)

    def nonsense(self, key: str, found: object, wanted: str) -> OutcomeUnknown:
        """The error that says what was expected of a part, and what is there."""
        return nonsense(self._host, self._path(key), found, wanted)

    def _address(self, text: str, key: str) -> str:
        try:
            return str(PciAddress.parse(text))
        except ValueError:
            raise self.nonsense(key, text, "a PCI address") from None

    def _number(
        self, found: object, key: str, least: int, most: int, index: int | None = None
    ) -> int:
        if type(found) is int and least <= found <= most:
            return found
        raise self.nonsense(_item(key, index), found, f"a whole number from {least} to {most}")

    def _text(self, found: object, key: str, index: int | None = None) -> str:
        if isinstance(found, str) and len(found) <= LONGEST_TEXT:
            if is_text(found):
                return found
            raise self.nonsense(_item(key, index), found, "text that UTF-8 can hold")
        raise self.nonsense(_item(key, index), found, f"text of at most {LONGEST_TEXT} characters")

    def _object(self, key: str) -> Mapping[str, object]:
        return self._get(key, dict, "an object") or {}

    def _list(self, key: str, most: int) -> Sequence[object]:
        found: list[object] = self._get(key, list, "a list") or []
        if len(found) > most:
            raise self.nonsense(key, f"{len(found)} entries", f"at most {most}")
        return found

    def _get(self, key: str, kind: type[T], wanted: str) -> T | None:
        found = self._data.get(key)
        if found is not None and not isinstance(found, kind):
            raise self.nonsense(key, found, wanted)
        return found

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key


class Plain:
    """Free-form JSON: at most 8,192 values, flat, numbers and texts in range."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._left = MOST_PLAIN

    def check(self, found: object, where: str, deepest: int) -> None:
        """Raises OutcomeUnknown for what is out of range."""
        self._left -= 1
        if self._left < 0 or deepest < 0:
            raise nonsense(self._host, where, found, "something smaller")
        if isinstance(found, Mapping):
            for name, item in found.items():
                self.check(name, where, deepest)
                self.check(item, f"{where}.{name[:_SHOWN]}", deepest - 1)
        elif isinstance(found, list):
            for item in found:
                self.check(item, where, deepest - 1)
        elif isinstance(found, str):
            if len(found) > LONGEST_TEXT or not is_text(found):
                raise nonsense(self._host, where, found, "text that UTF-8 can hold")
        elif isinstance(found, int | float) and not _within(found):
            raise nonsense(self._host, where, found, "a number")


def nonsense(host: str, where: str, found: object, wanted: str) -> OutcomeUnknown:
    """The error for an answer that makes no sense: which part of it, and what helps."""
    whose = f"{host}'s helper" if host else "the helper"
    anew = f"vgpumgr host upgrade {host}   (reinstalls the helper)"
    aside = f"vgpumgr host cordon {host}   (until somebody has inspected it)"
    return OutcomeUnknown(
        f"the answer of {whose} cannot be understood: {spoken(where)[:200]}",
        why=f"{wanted} expected, found {in_short(found)}",
        next=f"{anew}, or {aside}" if host else "vgpumgr doctor",
    )


def is_text(found: str) -> bool:
    """Can UTF-8 hold it?"""
    return found.isascii() or not SURROGATE.search(found)


def in_short(found: object) -> str:
    """A value in at most sixty characters; a large one is not written out before it is cut."""
    if isinstance(found, dict | list):
        return f"{'an object' if isinstance(found, dict) else 'a list'} of {len(found)}"
    if isinstance(found, int) and not _within(found):
        return f"a number of {found.bit_length()} bits"
    text = found[:_SHOWN] if isinstance(found, str) else found
    written = json.dumps(text, default=str)
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}…"


def _within(number: float) -> bool:
    return -MOST <= number <= MOST and not math.isnan(number)


def _item(key: str, index: int | None) -> str:
    return key if index is None else f"{key}[{index}]"
