"""The one place where text reaches a terminal. What hosts and files say is made harmless here."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import click

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


def json_text(data: object, *, indent: int | None = None) -> str:
    """JSON in printable ASCII: what json leaves of controls (DEL) is escaped, too."""
    return json.dumps(data, indent=indent).replace("\x7f", "\\u007f")


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


def _code(mark: re.Match[str]) -> str:
    return _known.get(mark[1], "")


def _written_out(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
