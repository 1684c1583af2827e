"""The one place where text reaches a terminal and where a person is asked to confirm.

Text from hosts and files is made harmless here. Lines are fitted to the terminal's width; a
pipe or file gets whole lines. Only acts that destroy ask, and only at a terminal.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import Any, TextIO

import click

from vgpumgr.model.errors import UsageError, VgpumgrError

_NARROWEST = 24
# Controls but newline and tab, DEL, C1; marks that turn the direction of text; line separators
# that are none to a terminal's reader; lone surrogates, which no stream takes.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff]"
)
# Colours of our own travel in text as marks of private-use characters. A part of the mark is made
# anew by every process, so that no host can write one.
_PRIVATE = 0xF0000
_MARK = "".join(chr(_PRIVATE + int.from_bytes(os.urandom(2), "big") % 0xFFF0) for _ in "ab")
_CODES = ("\x1b[0m", "\r\x1b[K")
_STYLED = re.compile(f"{_MARK}(.)", re.DOTALL)
_known: dict[str, str] = {chr(_PRIVATE + n): code for n, code in enumerate(_CODES)}

RESET, CLEAR_LINE = (_MARK + key for key in _known)
"""What ends a style; what takes the terminal's line away, to be written over."""


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print, harmless but for styles of ours; no colours where NO_COLOR is set."""
    color = False if os.environ.get("NO_COLOR") else None
    click.echo(_STYLED.sub(_code, harmless(text)), err=err, nl=nl, color=color)


def echo_json(data: object, *, indent: int | None = None, err: bool = False) -> None:
    """Print JSON: exact, and nothing in it but printable ASCII."""
    echo(json_text(data, indent=indent), err=err)


def json_text(data: object, *, indent: int | None = None, compact: bool = False) -> str:
    """JSON in printable ASCII: what json leaves of controls (DEL) is escaped, too."""
    separators = (",", ":") if compact else None
    return json.dumps(data, indent=indent, separators=separators).replace("\x7f", "\\u007f")


def harmless(text: str) -> str:
    """Text with every control, direction mark and lone surrogate written out: ``\\x1b``."""
    return text if text.isascii() and text.isprintable() else _HARMFUL.sub(_written_out, text)


def one_line(text: str) -> str:
    """The same, line ends and tabs, too: a cell, or a message that is no more than a line."""
    return harmless(text).replace("\n", "\\n").replace("\t", "\\t")


def style(text: str, **how: Any) -> str:
    """``text`` as ``click.style`` would have it; only :func:`echo` can print it."""
    begin = click.style("", reset=False, **how)
    key = next((key for key, code in _known.items() if code == begin), None)
    if key is None:
        key = chr(_PRIVATE + len(_known))
        _known[key] = begin
    return f"{_MARK}{key}{text}{RESET}"


def unstyled(text: str) -> str:
    """The same without its marks."""
    return _STYLED.sub("", text)


def width(stream: TextIO | None = None) -> int | None:
    """Columns of the terminal that ``stream`` (standard output) is; None where it is none."""
    stream = stream or sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None


def has_blocks() -> bool:
    """Can standard output show block elements (U+2581 and following)?"""
    if os.environ.get("LC_ALL") in {"C", "POSIX"}:
        return False
    try:
        "▁█".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def length(text: str) -> int:
    """Columns that a text takes, styles aside."""
    return len(unstyled(text))


def hung(head: str, text: str, indent: int = 6) -> str:
    """``text`` behind ``head``, on as many lines as it takes: below its own beginning, or where
    too little is left there, on lines of its own.
    """
    limit = width()
    at = length(head)
    if limit is None or at + len(text) <= limit:
        return f"{head}{text}"
    if limit - at >= _NARROWEST:
        first, *rest = _lines(text, limit - at)
        return "\n".join([f"{head}{first}", *(f"{' ' * at}{line}" for line in rest)])
    below = (f"{' ' * indent}{line}" for line in _lines(text, limit - indent))
    return "\n".join([head.rstrip(), *below])


def fitted(text: str, limit: int | None) -> str:
    """Lines that are too long, broken between words and indented; coloured ones stay."""
    if limit is None:
        return text
    return "\n".join(_broken(line, limit) for line in text.split("\n"))


def _code(mark: re.Match[str]) -> str:
    return _known.get(mark[1], "")


def _written_out(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _broken(line: str, limit: int) -> str:
    if len(line) <= limit or _MARK in line:
        return line
    indent = len(line) - len(line.lstrip())
    more = " " * min(indent + 4, limit // 2)
    first, *rest = _lines(line.lstrip(), limit - len(more))
    return "\n".join([f"{' ' * indent}{first}", *(f"{more}{each}" for each in rest)])


def _lines(text: str, limit: int) -> list[str]:
    found = textwrap.wrap(text, limit, break_long_words=False, break_on_hyphens=False)
    return found or [""]


def confirm(*, yes: bool) -> Callable[[str], None]:
    """A function that asks a question, or passes with ``-y``; without a terminal it refuses."""

    def ask(question: str) -> None:
        if yes:
            return
        if not at_a_terminal():
            raise UsageError(question, why="there is no terminal to confirm at", next="add -y")
        if not click.confirm(harmless(question), err=True):
            raise VgpumgrError("not confirmed: nothing was changed")

    return ask


def typed(question: str, *, hidden: bool = False) -> str:
    """What somebody at the terminal types; ``hidden``: it is not shown."""
    return str(click.prompt(harmless(question), hide_input=hidden, err=True))


def at_a_terminal() -> bool:
    """Is there somebody to answer?"""
    return sys.stdin.isatty()
