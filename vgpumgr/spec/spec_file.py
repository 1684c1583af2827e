"""A file of YAML documents: its data, the place of every key, and what is wrong at which place.

A small builder over the parser's events instead of the loader of PyYAML: aliases, tags, deep
nesting, duplicate keys and control characters are refused before anything is made of them.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from vgpumgr.model.errors import UnknownProfile, UsageError

# The source's name of a document made from flags.
COMMAND_LINE = "the command line"
MAX_PROBLEMS = 50
MAX_SHOWN = 60

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, order=True)
class FileMark:
    """A place in a file; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One finding. ``path`` is the key path (``gpus[0].profile``), empty for a whole document.
    ``document`` counts from 1 where the file has several; 0: it has one.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    document: int = 0

    def __str__(self) -> str:
        # What was typed, or asked in a form, has no lines that the user could look at.
        where = "" if self.file == COMMAND_LINE else f"{self.file}:{self.line}:{self.column}"
        which = f"document {self.document}" if where and self.document else ""
        return ": ".join(filter(None, (where, which, self.path, self.message)))


class SpecError(UsageError):
    """A file that cannot be used; ``problems`` are its findings in the order of the file."""

    code = "usage.spec"

    def __init__(self, problems: tuple[SpecProblem, ...]) -> None:
        what = "it" if problems[0].file == COMMAND_LINE else "the file"
        super().__init__(_summary(problems), next=f"correct {what} and try again")
        self.problems = problems
        keys = ("file", "line", "column", "document", "path", "message")
        self.details = {
            "problems": [{key: getattr(each, key) for key in keys} for each in problems]
        }


class UnknownProfiles(SpecError, UnknownProfile):
    """A file whose only fault is profile names that nobody knows."""

    code = UnknownProfile.code


@dataclass(slots=True)
class SpecFindings:
    """Collects problems of one file; after ``MAX_PROBLEMS`` further ones are only counted.
    ``starts`` are the lines on which its documents begin, as far as they were read.
    """

    file: str
    found: list[SpecProblem] = field(default_factory=list)
    more: int = 0
    profiles: int = 0
    starts: list[int] = field(default_factory=list)

    def number(self, line: int) -> int:
        """Which document that line is in, counted from 1; 0 where there is one alone."""
        return max(1, bisect_right(self.starts, line)) if len(self.starts) > 1 else 0

    def add(self, mark: FileMark, message: str, path: Path = ()) -> None:
        """Record one finding."""
        if self.full:
            self.more += 1
        else:
            where = (self.file, mark.line, mark.column)
            self.found.append(SpecProblem(*where, dotted(path), message))

    @property
    def full(self) -> bool:
        """Whether further findings are only counted: their texts need not be made."""
        return len(self.found) >= MAX_PROBLEMS

    def raise_if_any(self) -> None:
        """Raise SpecError with all findings, in the order of the file."""
        if not self.found:
            return
        found = sorted(self.found, key=lambda each: (each.line, each.column))
        if self.more:
            found.append(replace(found[-1], path="", message=f"and {self.more} more"))
        found = [replace(each, document=self.number(each.line)) for each in found]
        kind = UnknownProfiles if self.profiles == len(self.found) else SpecError
        raise kind(tuple(found))


def dotted(path: Path) -> str:
    """``("gpus", 0, "profile")`` → ``gpus[0].profile``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{_key(part)}" if text else _key(part)
    return text


def _key(text: str) -> str:
    """A user's key as it stands, or escaped and cut where it is unknown."""
    return text if text.isprintable() and len(text) <= MAX_SHOWN else shown(text)


def shown(value: object) -> str:
    """A user's value, quoted, escaped and cut, as an error may print it."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def either(words: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def nearest(value: object, known: Iterable[str]) -> str | None:
    """The known word that a misspelt one most likely means."""
    by_folded = {each.casefold(): each for each in known}
    folded = str(value)[:MAX_SHOWN].casefold()
    return next((by_folded[near] for near in difflib.get_close_matches(folded, by_folded, 1)), None)


def did_you_mean(value: object, known: Iterable[str]) -> str:
    """``; did you mean …?`` for a value near a known one, else nothing."""
    near = nearest(value, known)
    return f"; did you mean {near}?" if near else ""


def _summary(problems: tuple[SpecProblem, ...]) -> str:
    if len(problems) == 1:
        return str(problems[0])
    lines = "\n".join(f"  {each}" for each in problems)
    file = problems[0].file
    has = "" if file == COMMAND_LINE else f"{file} has "
    return f"{has}{len(problems)} problems\n{lines}"


MAX_DEPTH = 32
MAX_DOCUMENTS = 10_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Numbers and words are what YAML 1.1 and 1.2 read alike; all else (08, 1e3, yes, 12:30) is text.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?[0-9]{1,18}\.[0-9]{0,18}([eE][-+][0-9]{1,2})?")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# What neither XML nor a terminal takes: controls other than tab and newline, surrogates, U+FFFE.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


START = FileMark(1, 1)


@dataclass(slots=True)
class YamlTree:
    """One YAML document: its data, and where each key and each value of a path stands."""

    data: Any = None
    start: FileMark = START
    keys: dict[Path, FileMark] = field(default_factory=dict)
    values: dict[Path, FileMark] = field(default_factory=dict)

    def value_mark(self, path: Path) -> FileMark:
        """Where the value stands, or the nearest thing around it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, self.start)

    def key_mark(self, path: Path) -> FileMark:
        """Where the key stands, or the nearest thing around it."""
        return self.keys.get(path) or self.value_mark(path)


@dataclass(slots=True)
class _Open:
    """A collection being filled; ``key`` is the pending key of a mapping."""

    data: dict[str, Any] | list[Any]
    path: Path
    key: str | None = None


class _RefusedYaml(Exception):
    """The file is not read any further; never leaves this module."""


def trees(text: str, findings: SpecFindings) -> list[YamlTree]:
    """The documents of ``text``; what is refused goes to ``findings``."""
    found: list[YamlTree] = []
    try:
        _read(text, findings, found)
    except _RefusedYaml:
        pass
    except yaml.YAMLError as error:
        findings.add(_mark_of(error, text), f"not valid YAML: {_reason(error)}")
    return found


def _read(text: str, findings: SpecFindings, found: list[YamlTree]) -> None:
    events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            findings.starts.append(_mark(event).line)
            if len(found) >= MAX_DOCUMENTS:
                findings.add(_mark(event), f"more than {MAX_DOCUMENTS} documents")
                raise _RefusedYaml
            tree = _Builder(findings).build(events)
            if tree.data is not None:
                found.append(tree)


class _Builder:
    """Makes one document's tree of the events up to its end."""

    def __init__(self, findings: SpecFindings) -> None:
        self.tree = YamlTree()
        self.findings = findings
        self.stack: list[_Open] = []

    def build(self, events: Iterator[yaml.Event]) -> YamlTree:
        """Take the document's events; _Refused after a finding that ends the reading."""
        for event in events:
            if isinstance(event, yaml.DocumentEndEvent):
                break
            self._take(event)
        return self.tree

    def _take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent():
                self._open(event, {})
            case yaml.SequenceStartEvent():
                self._open(event, [])
            case yaml.AliasEvent():
                self._refuse(event, "aliases (*name) are not accepted: write the value out")
            case _:
                self.stack.pop()

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._check_tag(event)
        if _FORBIDDEN.search(event.value):
            self.findings.add(_mark(event), f"control characters in {shown(event.value)}")
        top = self.stack[-1] if self.stack else None
        if top and isinstance(top.data, dict) and top.key is None:
            self._key(top, event)
        else:
            self._put(_resolve(event), _mark(event))

    def _key(self, top: _Open, event: yaml.ScalarEvent) -> None:
        path = (*top.path, event.value)
        first = self.tree.keys.setdefault(path, _mark(event))
        if first != _mark(event):
            message = f"duplicate key, first on line {first.line}"
            self.findings.add(_mark(event), message, path)
        top.key = event.value

    def _open(self, event: yaml.CollectionStartEvent, data: dict[str, Any] | list[Any]) -> None:
        self._check_tag(event)
        top = self.stack[-1] if self.stack else None
        if top and isinstance(top.data, dict) and top.key is None:
            self._refuse(event, "a key must be plain text")
        if len(self.stack) >= MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        self.stack.append(_Open(data, self._put(data, _mark(event))))

    def _put(self, value: Any, mark: FileMark) -> Path:
        """Hang the value where it belongs, and say at which path that is."""
        if not self.stack:
            self.tree.data, self.tree.start = value, mark
            self.tree.values[()] = mark
            return ()
        top = self.stack[-1]
        if isinstance(top.data, list):
            path: Path = (*top.path, len(top.data))
            top.data.append(value)
        else:
            key = str(top.key)
            path, top.data[key], top.key = (*top.path, key), value, None
        self.tree.values[path] = mark
        return path

    def _check_tag(self, event: yaml.NodeEvent) -> None:
        if getattr(event, "tag", None) not in {None, "!"}:
            self._refuse(event, "tags (!name) are not accepted")

    def _refuse(self, event: yaml.Event, message: str) -> None:
        self.findings.add(_mark(event), message)
        raise _RefusedYaml


def _resolve(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _mark(event: yaml.Event) -> FileMark:
    place = event.start_mark
    return FileMark(place.line + 1, place.column + 1) if place else START


def _mark_of(error: yaml.YAMLError, text: str) -> FileMark:
    place = getattr(error, "problem_mark", None)
    if place is not None:
        return FileMark(place.line + 1, place.column + 1)
    before = text[: getattr(error, "position", 0)]
    return FileMark(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _reason(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
