"""The object that every command gets: the settings and, on first use, the app."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from vgpumgr.app import App
    from vgpumgr.app.config import Config


class Context:
    """Made by the root command; closed when the command ends."""

    def __init__(self, overrides: dict[str, str]) -> None:
        self._overrides = overrides
        self._opened = False

    @cached_property
    def config(self) -> Config:
        """The merged settings."""
        from vgpumgr.app.config import load_config

        return load_config(os.environ, Path.cwd(), self._overrides)

    @cached_property
    def app(self) -> App:
        """The app, made on first use."""
        from vgpumgr.app import App
        from vgpumgr.cli.output import say

        self._opened = True
        app = App(self.config)
        app.notice = say
        return app

    def warn_if_frozen(self) -> None:
        """One line on stderr under whatever is listed from a ledger that may not allocate."""
        from vgpumgr.cli.output import say

        frozen = self.app.frozen() if self._opened else None
        if frozen is not None:
            why, _, _ = frozen.why.partition(";")
            say(f"the ledger is frozen, nothing is allocated or started: {why}: vgpumgr store thaw")

    def close(self) -> None:
        """Close the app if it was opened."""
        if self._opened:
            self.app.close()


pass_context = click.make_pass_decorator(Context)
