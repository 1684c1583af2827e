"""Asking: only acts that destroy ask, and only at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from vgpumgr.cli.terminal import harmless
from vgpumgr.model.errors import UsageError, VgpumgrError


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


def typed(question: str) -> str:
    """What somebody at the terminal types."""
    return str(click.prompt(harmless(question), err=True))


def at_a_terminal() -> bool:
    """Is there somebody to answer?"""
    return sys.stdin.isatty()
