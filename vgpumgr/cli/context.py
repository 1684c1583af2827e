"""What every command gets: the settings and, when asked for, the app."""

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

    def close(self) -> None:
        """Close the app if it was opened."""
        if self._opened:
            self.app.close()


pass_context = click.make_pass_decorator(Context)
