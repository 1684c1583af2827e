"""What every command gets: the settings and, when asked for, the app."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.output import say

if TYPE_CHECKING:
    from vgpumgr.app import App
    from vgpumgr.app.config import Config


class Context:
    """Made by the root command; closed when the command ends."""

    def __init__(self, overrides: dict[str, str], *, debug: bool) -> None:
        self._overrides = overrides
        self.debug = debug
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

        self._opened = True
        return App(self.config)

    @contextmanager
    def interruptible(self) -> Iterator[App]:
        """The first Ctrl-C lets the running host call end; a second one breaks off at once."""
        app = self.app

        def on_interrupt(_signal: int, _frame: object) -> None:
            if app.stop.is_set():
                raise KeyboardInterrupt
            app.stop.set()
            say("interrupting: waiting for the running host calls to end …")

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield app
        finally:
            signal.signal(signal.SIGINT, before)

    def close(self) -> None:
        """Close the app if it was opened."""
        if self._opened:
            self.app.close()


pass_context = click.make_pass_decorator(Context)
