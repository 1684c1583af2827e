"""Redaction of names: what is computed over the whole fleet names VMs, pools and users of every
tenant; who is limited to some tenants reads *another tenant's* instead.

Names have to be found in sentences that were made elsewhere, so a word that happens to be a foreign
name is taken out too. In values that have fields it is done to sentences, and to single words
where the field holds names of VMs or users (``NAME_FIELDS``): a VM that somebody calls ``running``
must not change another tenant's ``state``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from vgpumgr.model.errors import NotFound, VgpumgrError
from vgpumgr.model.role_binding import Scope
from vgpumgr.model.supply import Usage

OTHERS = "(another tenant's)"
IN_USE = "in use by another tenant"

NAME_FIELDS = frozenset(
    {
        *("vm", "vms", "desktop", "desktops", "names", "user", "users", "owner"),
        *("behind", "after", "waits_for", "preempts", "holder", "used_by", "taken_by", "foreign"),
    }
)

_TOKEN = re.compile(r"\w+(?:[.@+-]+\w+)*")
_PIECE = re.compile(r"\w+|[.@+-]+")
# A longer run of words is no name.
_LONGEST = 24

V = TypeVar("V")
E = TypeVar("E", bound=VgpumgrError)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Takes ``foreign`` names out of texts; where one is also ``own`` it stays."""

    foreign: frozenset[str] = field(default=frozenset())
    own: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(cls, scope: Scope, tenants: Iterable[tuple[str, str]]) -> Redaction:
        """The redaction for a scope, given (name, tenant) of whatever may be named."""
        own: set[str] = set()
        foreign: set[str] = set()
        for name, tenant in tenants:
            (own if tenant in scope else foreign).add(name)
        return cls(frozenset(foreign - own - {""}), frozenset(own))

    def text(self, text: str) -> str:
        """The text without foreign names."""
        return _TOKEN.sub(lambda found: self._token(found[0]), text) if self.foreign else text

    def value(self, value: V) -> V:
        """The value with each text in it redacted; the very same where there is nothing to do."""
        return cast("V", self._value(value, "")) if self.foreign else value

    def usage(self, usage: Usage) -> Usage:
        """What lives on a GPU, without saying whose."""
        if usage.vm in self.foreign:
            return dataclasses.replace(usage, vm="", foreign=IN_USE)
        return dataclasses.replace(usage, foreign=self.text(usage.foreign))

    def error(self, error: E) -> E:
        """The same error with the texts redacted. A command that names what is foreign is left
        out, as are near names.
        """
        message, why = self.text(error.message), self.text(error.why)
        if isinstance(error, NotFound) and why != error.why:
            why = ""
        next_ = error.next if self.text(error.next) == error.next else ""
        if (message, why, next_) == (error.message, error.why, error.next):
            return error
        made = error.__class__.__new__(error.__class__)
        made.__dict__.update(error.__dict__)
        made.args = (message,)
        made.message, made.why, made.next = message, why, next_
        for name, each in vars(error).items():
            if name not in {"message", "why", "next"}:
                setattr(made, name, self._value(each, ""))
        return made

    def _token(self, token: str) -> str:
        if token in self.own:
            return token
        pieces = _PIECE.findall(token)
        made, at = [], 0
        while at < len(pieces):
            end = self._known(pieces, at)
            run = "".join(pieces[at:end])
            made.append(OTHERS if run in self.foreign else run)
            at = end
        return "".join(made)

    def _known(self, pieces: list[str], at: int) -> int:
        """Where the longest name that begins at this piece ends; the next piece where none does."""
        for end in range(min(len(pieces), at + _LONGEST), at, -1):
            run = "".join(pieces[at:end])
            if run in self.foreign or run in self.own:
                return end
        return at + 1

    def _value(self, value: Any, field_name: str) -> Any:
        """The value of a field; without a name of one, whatever may be a text is."""
        match value:
            case str():
                is_text = not field_name or field_name in NAME_FIELDS or " " in value
                return self.text(value) if is_text and type(value) is str else value
            case Usage():
                return self.usage(value)
            case tuple() | list() | frozenset():
                items = [self._value(each, field_name) for each in value]
                same = all(one is other for one, other in zip(items, value, strict=True))
                return value if same else type(value)(items)
            case Mapping():
                are_names = field_name in NAME_FIELDS
                return {
                    (self.text(key) if are_names else key): self._value(each, str(key))
                    for key, each in value.items()
                }
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._fields(value)
        return value

    def _fields(self, value: Any) -> Any:
        names = [each.name for each in dataclasses.fields(value) if each.init]
        found = {name: getattr(value, name) for name in names}
        new = {name: self._value(each, name) for name, each in found.items()}
        changed = {name: each for name, each in new.items() if each != found[name]}
        return dataclasses.replace(value, **changed) if changed else value


def names_in(value: object) -> frozenset[str]:
    """Whatever in the texts of a value may be a name."""
    return frozenset(_names_in(value))


def _names_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            for token in _TOKEN.findall(value):
                yield from _runs(_PIECE.findall(token))
        case Mapping():
            yield from _names_in(list(value.keys()))
            yield from _names_in(list(value.values()))
        case tuple() | list() | frozenset():
            for each in value:
                yield from _names_in(each)
        case VgpumgrError():
            yield from _names_in(list(vars(value).values()))
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            for each in dataclasses.fields(value):
                yield from _names_in(getattr(value, each.name))


def _runs(pieces: list[str]) -> Iterator[str]:
    for at in range(0, len(pieces), 2):
        for end in range(at + 1, min(len(pieces), at + _LONGEST) + 1, 2):
            yield "".join(pieces[at:end])
