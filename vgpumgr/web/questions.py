"""What a page asks before a change: the same that the command line asks, with what would happen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.model.formats import counted
from vgpumgr.web.page import PageRead

Asked = Mapping[str, Any]


Answers = Mapping[str, Any]
"""Answers of a question's reads, by their names."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A parameter that is chosen when asked: a box to tick, or by its ``kind`` a field: a
    ``number``, ``text``, ``password`` (never shown again), ``words`` between spaces or ``lines``
    (of a list), a ``moment``, or a ``select`` of ``options``; a text may have those as proposals.
    ``options`` are values, or pairs of a value and what is shown for it; where they come from a
    read, they are made of the answers. What is ``required`` must be said, whatever the endpoint
    takes for it otherwise.
    """

    name: str
    label: str
    kind: str = "tick"
    hint: str = ""
    options: tuple[Any, ...] | Callable[[Answers], Iterable[Any]] = ()
    required: bool = False

    def pairs(self, answers: Answers) -> list[tuple[str, str]]:
        """The options as (value, what is shown for it)."""
        found = self.options(answers) if callable(self.options) else self.options
        return [(each, each) if isinstance(each, str) else tuple(each) for each in found]


def names_of(read: str, key: str = "name") -> Callable[[Answers], Iterable[str]]:
    """Options that are the names of a read's items; none where it may not be read."""

    def options(answers: Answers) -> Iterable[str]:
        return [each[key] for each in (answers[read] or {"items": ()})["items"]]

    return options


def all_of(read: str, *keys: str) -> Callable[[Answers], Iterable[str]]:
    """Options that are the texts, or lists of texts, under these keys of a read's items."""

    def options(answers: Answers) -> Iterable[str]:
        found = [each[key] for each in (answers[read] or {"items": ()})["items"] for key in keys]
        texts = [[each] if isinstance(each, str) else each for each in found]
        return sorted({each for some in texts for each in some if each})

    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked before the endpoint is called. ``text`` says what is to be done to what;
    ``preview`` is the endpoint that tells what would happen, with the same parameters as far as it
    has them, and ``also`` are others that are shown with it; ``back`` is where its page is.
    Parameters that were given in a form are ``shown``. ``reads`` are for the options of its
    choices, ``intro`` says what is good to know first. ``agreed`` makes parameters of the preview
    that hold the change to what was shown; where they are empty, there is nothing to be done.

    A question comes back where its change was refused, with what was typed; and where something
    else was chosen than its preview is about.
    """

    endpoint: str
    text: Callable[[Asked], str]
    button: str
    back: Callable[[Asked], str]
    preview: str = ""
    also: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    shown: tuple[str, ...] = ()
    ends_something: bool = False
    reads: tuple[PageRead, ...] = ()
    intro: str = ""
    agreed: Callable[[Asked], Asked] = field(default=lambda _preview: {})


def several(verb: str, noun: str) -> Callable[[Asked], str]:
    """``Stop desk-1``, ``Stop 3 VMs``."""

    def text(asked: Asked) -> str:
        names = asked.get("names", [])
        return f"{verb} {names[0] if len(names) == 1 else counted(len(names), noun)}"

    return text


def one(verb: str, parameter: str = "name", before: str = "") -> Callable[[Asked], str]:
    """``Drain gpu-host-1``, ``Grant a role to user:ada``; the verb while nothing is named."""

    def text(asked: Asked) -> str:
        what = asked.get(parameter, "")
        return f"{verb} {before} {what}".replace("  ", " ") if what else verb

    return text


def page_of(folder: str, parameter: str = "names") -> Callable[[Asked], str]:
    """The page of the one thing, or the list of several."""

    def back(asked: Asked) -> str:
        found = asked.get(parameter, "")
        names = [found] if isinstance(found, str) else found
        return f"/{folder}/{names[0]}" if len(names) == 1 and names[0] else f"/{folder}"

    return back


def at(path: str) -> Callable[[Asked], str]:
    """Always that page."""
    return lambda _: path
