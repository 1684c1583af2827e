"""Asking: only acts that destroy ask, and only at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from vgpumgr.model.errors import UsageError


def confirm(*, yes: bool) -> Callable[[str], None]:
    """A function that asks a question, or passes with ``-y``; without a terminal it refuses."""

    def ask(question: str) -> None:
        if yes:
            return
        if not sys.stdin.isatty():
            raise UsageError(question, why="there is no terminal to ask at", next="add -y")
        click.confirm(question, abort=True, err=True)

    return ask
