"""What a page asks before a change: the same that the command line asks, with what would happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vgpumgr.model.formats import counted

Asked = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Choice:
    """A parameter that is chosen when asked: a box to tick, or with ``kind`` ``number`` or ``text``
    a field.
    """

    name: str
    label: str
    kind: str = "tick"
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked before the endpoint is called. ``text`` says what is to be done to what;
    ``preview`` is the endpoint that tells what would happen, with the same parameters as far as it
    has them; ``back`` is where its page is. Parameters that were given in a form are ``shown``.
    """

    endpoint: str
    text: Callable[[Asked], str]
    button: str
    back: Callable[[Asked], str]
    preview: str = ""
    choices: tuple[Choice, ...] = ()
    shown: tuple[str, ...] = ()
    ends_something: bool = False


def several(verb: str, noun: str) -> Callable[[Asked], str]:
    """``Stop desk-1``, ``Stop 3 VMs``."""

    def text(asked: Asked) -> str:
        names = asked.get("names", [])
        return f"{verb} {names[0] if len(names) == 1 else counted(len(names), noun)}"

    return text


def one(verb: str, parameter: str = "name") -> Callable[[Asked], str]:
    """``Drain gpu-host-1``."""
    return lambda asked: f"{verb} {asked.get(parameter, '')}"


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
