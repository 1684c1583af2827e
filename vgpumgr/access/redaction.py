"""Redaction of names: what is computed over the whole fleet names VMs, pools and users of every
tenant; who is limited to some tenants reads *another tenant's* instead.

Names have to be found in sentences that were made elsewhere, so a word that happens to be a foreign
name is taken out too. In values that have fields it is done to sentences, and to single words
where the field holds names of VMs or users (``NAME_FIELDS``): a VM that somebody calls ``running``
must not change another tenant's ``state``. Addresses of hosts are taken out of sentences, too.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar, cast

from vgpumgr.model.errors import NotFound, VgpumgrError
from vgpumgr.model.role_binding import Scope
from vgpumgr.model.supply import Usage

OTHERS = "(another tenant's)"
IN_USE = "in use by another tenant"
ADDRESS = "(an address)"

NAME_FIELDS = frozenset(
    {
        *("vm", "vms", "desktop", "desktops", "names", "user", "users", "owner"),
        *("behind", "after", "waits_for", "preempts", "holder", "used_by", "taken_by", "foreign"),
        *("ends", "unchanged", "waiting"),
    }
)
VERBATIM_FIELDS = frozenset({"xml"})
"""What is the asker's own, and for programs: no word of it is changed."""
COMMAND_FIELD = "next"
"""Commands to type: one that would name what is foreign is left out."""

_TOKEN = re.compile(r"\w+(?:[.@+-]+\w+)*")
_PIECE = re.compile(r"\w+|[.@+-]+")
# A longer run of words is no name.
_LONGEST = 24

NO_ADDRESSES: Mapping[str, str] = MappingProxyType({})

_HERE = "local"
"""The address of a host that is the controller itself."""

V = TypeVar("V")
E = TypeVar("E", bound=VgpumgrError)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Takes ``foreign`` names out of texts; where one is also ``own`` it stays."""

    foreign: frozenset[str] = field(default=frozenset())
    own: frozenset[str] = field(default=frozenset())
    addresses: frozenset[str] = field(default=frozenset())

    @classmethod
    def of(
        cls,
        scope: Scope,
        tenants: Iterable[tuple[str, str]],
        addresses: Mapping[str, str] = NO_ADDRESSES,
    ) -> Redaction:
        """The redaction for a scope, given (name, tenant) of whatever may be named, and the
        ``addresses`` of hosts by their names.
        """
        own: set[str] = set()
        foreign: set[str] = set()
        for name, tenant in tenants:
            (own if tenant in scope else foreign).add(name)
        hidden = {form for each in addresses.values() for form in _forms(each)}
        hidden -= own.union(addresses)
        return cls(frozenset(foreign - own - {""}), frozenset(own), frozenset(hidden))

    def knowing(self, said: Collection[str]) -> Redaction:
        """The same for somebody who said these names, and may read them again."""
        if not said:
            return self
        known = self.own.union(said)
        return Redaction(self.foreign - known, known, self.addresses - known)

    @property
    def _hides(self) -> bool:
        return bool(self.foreign or self.addresses)

    def text(self, text: str) -> str:
        """The text without foreign names."""
        if not self._hides:
            return text
        for each in self.addresses:
            if ":" in each and each in text:
                text = text.replace(each, ADDRESS)
        return _TOKEN.sub(lambda found: self._token(found[0]), text)

    def value(self, value: V) -> V:
        """The value with each text in it redacted; the very same where there is nothing to do."""
        return cast("V", self._value(value, "")) if self._hides else value

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
        texts = {"message": message, "why": why, "next": next_}
        new = {name: self._value(each, "") for name, each in vars(error).items()} | texts
        if new == vars(error):
            return error
        made = error.__class__.__new__(error.__class__)
        made.__dict__.update(new)
        made.args = (message,)
        return made

    def _token(self, token: str) -> str:
        if token in self.own:
            return token
        pieces = _PIECE.findall(token)
        made, at = [], 0
        while at < len(pieces):
            end = self._known(pieces, at)
            run = "".join(pieces[at:end])
            made.append(self._said(run))
            at = end
        return "".join(made)

    def _said(self, run: str) -> str:
        if run in self.foreign:
            return OTHERS
        return ADDRESS if run in self.addresses else run

    def _known(self, pieces: list[str], at: int) -> int:
        """Where the longest name that begins at this piece ends; the next piece where none does."""
        for end in range(min(len(pieces), at + _LONGEST), at, -1):
            run = "".join(pieces[at:end])
            if run in self.foreign or run in self.own or run in self.addresses:
                return end
        return at + 1

    def _value(self, value: Any, field_name: str) -> Any:
        """The value of a field; without a name of one, whatever may be a text is."""
        match value:
            case str():
                return self._text_of(value, field_name)
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

    def _text_of(self, value: str, field_name: str) -> str:
        if not _may_name(value, field_name) or type(value) is not str:
            return value
        new = self.text(value)
        return "" if new != value and field_name == COMMAND_FIELD else new

    def _fields(self, value: Any) -> Any:
        names = [each.name for each in dataclasses.fields(value) if each.init]
        found = {name: getattr(value, name) for name in names}
        new = {name: self._value(each, name) for name, each in found.items()}
        changed = {name: each for name, each in new.items() if each != found[name]}
        return dataclasses.replace(value, **changed) if changed else value


def names_in(value: object) -> frozenset[str]:
    """Whatever in the texts of a value may be a name."""
    texts: set[str] = set()
    _collect(value, "", texts)
    tokens = {token for text in texts for token in _TOKEN.findall(text)}
    return frozenset(run for token in tokens for run in _runs(_PIECE.findall(token)))


def _may_name(text: str, field_name: str) -> bool:
    """May there be a name in the text of a field? Without the field's name: in any."""
    if field_name in VERBATIM_FIELDS:
        return False
    return not field_name or field_name in NAME_FIELDS or " " in text


def _collect(value: Any, field_name: str, texts: set[str]) -> None:
    """The texts in a value that may name something."""
    match value:
        case str():
            if _may_name(value, field_name):
                texts.add(value)
        case Mapping():
            if field_name in NAME_FIELDS:
                texts.update(str(key) for key in value)
            for key, each in value.items():
                _collect(each, str(key), texts)
        case tuple() | list() | frozenset():
            for each in value:
                _collect(each, field_name, texts)
        case VgpumgrError():
            for each in vars(value).values():
                _collect(each, "", texts)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            for each in dataclasses.fields(value):
                _collect(getattr(value, each.name), each.name, texts)


def _runs(pieces: list[str]) -> Iterator[str]:
    for at in range(0, len(pieces), 2):
        for end in range(at + 1, min(len(pieces), at + _LONGEST) + 1, 2):
            yield "".join(pieces[at:end])


def _forms(address: str) -> Iterator[str]:
    """How texts write the address of a host: whole, without its user, without its port."""
    _, _, place = address.rpartition("@")
    machine, colon, port = place.rpartition(":")
    yield from (each for each in (address, place) if each not in {"", _HERE})
    if colon and port.isdigit() and machine:
        yield machine.strip("[]")
