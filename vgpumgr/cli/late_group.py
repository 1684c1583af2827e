"""Groups whose commands are imported when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LateGroup(click.Group):
    """A group with commands of other files: ``late`` is by name ``file of commands:function``. Its
    help imports them all, a call of one only that one.
    """

    def __init__(self, *args: Any, late: Mapping[str, str] | None = None, **named: Any) -> None:
        super().__init__(*args, **named)
        self._late = dict(late or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted({*super().list_commands(ctx), *self._late})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command; None where there is none of that name."""
        where = self._late.get(cmd_name)
        return super().get_command(ctx, cmd_name) if where is None else imported(where)


def imported(where: str) -> click.Command:
    """The command of ``file:function`` below ``vgpumgr.cli.commands``."""
    module, _, attribute = where.partition(":")
    command: click.Command = getattr(import_module(f"vgpumgr.cli.commands.{module}"), attribute)
    return command
