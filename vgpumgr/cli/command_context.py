"""The object that every command gets: the settings and, on first use, the app."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from vgpumgr.model.errors import UsageError, VgpumgrError

if TYPE_CHECKING:
    from vgpumgr.app import App
    from vgpumgr.app.config import Config
    from vgpumgr.client.api_client import ApiClient
    from vgpumgr.endpoints.endpoint import Endpoint, Result

P = TypeVar("P")
A = TypeVar("A")


def contexts_exist(environ: Mapping[str, str]) -> bool:
    """Has this user ever added a server?"""
    folder = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME') or '/root'}/.config"
    return Path(folder, "vgpumgr", "contexts").exists()


class Context:
    """Made by the root command; closed when the command ends."""

    def __init__(self, overrides: dict[str, str], server: str = "") -> None:
        self._server = server
        self.overrides = overrides
        self._opened = False

    @cached_property
    def config(self) -> Config:
        """The merged settings; UsageError where commands are carried out at a server."""
        if self.server is not None:
            raise UsageError(
                "this command works on the controller's own files",
                why="it cannot be carried out at a server",
                next="the same without --server, on the controller",
            )
        from vgpumgr.app.config import load_config

        return load_config(os.environ, Path.cwd(), self.overrides)

    @cached_property
    def app(self) -> App:
        """The app, made on first use; UsageError where commands are carried out at a server."""
        from vgpumgr.app import App
        from vgpumgr.cli.output import say

        self._opened = True
        app = App(self.config)
        app.notice = say
        return app

    @cached_property
    def server(self) -> ApiClient | None:
        """The server that commands are carried out at; None: in this process."""
        told = self._server or os.environ.get("VGPUMGR_SERVER", "")
        if not told and (self.overrides or not contexts_exist(os.environ)):
            return None
        from vgpumgr.client.api_client import ApiClient
        from vgpumgr.client.contexts import server_address

        address = server_address(os.environ, told)
        return ApiClient(address) if address is not None else None

    def read(self, endpoint: Endpoint[P, A], asked: P) -> Result[A]:
        """The answer of an endpoint that changes nothing."""
        if self.server is not None:
            return self.server.call(endpoint, asked)
        from vgpumgr.endpoints.call_context import CallContext

        return endpoint.work(CallContext(app=self.app), asked)

    def act(self, endpoint: Endpoint[P, A], asked: P) -> Result[A]:
        """The answer of an endpoint that changes the ledger alone, and is done at once."""
        return self.read(endpoint, asked)

    def warn_after_list(self) -> None:
        """One line on stderr under what is listed from a ledger that is not there, though it was
        named, or that may not allocate.
        """
        from vgpumgr.cli.output import say

        if self.overrides and self._opened and (where := self.app.absent_ledger()):
            makes_one = "vgpumgr host add NAME --address USER@HOST"
            say(f"there is no ledger at {where}: {makes_one} makes one")
        if why := self._frozen_why().partition(";")[0]:
            say(f"the ledger is frozen, nothing is allocated or started: {why}: vgpumgr store thaw")

    def _frozen_why(self) -> str:
        """Empty where it is not; where that cannot be asked, it is not said."""
        if self.server is not None:
            from vgpumgr.endpoints.ledger_state import SHOW_LEDGER
            from vgpumgr.endpoints.shapes import Nothing

            try:
                found = self.server.call(SHOW_LEDGER, Nothing()).answer["frozen"]
            except VgpumgrError:
                return ""
            return found["why"] if found is not None else ""
        frozen = self.app.frozen() if self._opened else None
        return frozen.why if frozen is not None else ""

    def close(self) -> None:
        """Close what was opened."""
        if (server := self.__dict__.get("server")) is not None:
            server.close()
        if self._opened:
            self.app.close()


pass_context = click.make_pass_decorator(Context)
