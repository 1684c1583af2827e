"""The commands `login` and `logout`: a session at a server, begun in a browser or by a password."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import say
from vgpumgr.cli.terminal import at_a_terminal, echo, one_line, typed
from vgpumgr.model.errors import DeadlineExceeded, UsageError

if TYPE_CHECKING:
    from vgpumgr.client.api_client import ApiClient


@click.command()
@click.option(
    "--user",
    default="",
    metavar="NAME",
    help="Log in at the server's directory (LDAP), with this user's password.",
)
@pass_context
def login(context: Context, user: str) -> None:
    """Log in at the current context's server, by a code that is typed in a browser.

    With --user by a password, asked for at a terminal, else the first line of the input.
    """
    server = _server(context)
    name = _current_name()
    if user:
        asked = {"user": user, "password": typed_password(user)}
        _keep(name, server.post("/v1/logins:password", asked))
        return
    begun = server.post("/v1/logins")
    echo(f"open {one_line(begun['complete_uri'])}")
    echo(f"the code is {one_line(begun['user_code'])}")
    until = time.monotonic() + float(begun["expires_s"])
    interval_s = float(begun["interval_s"])
    while time.monotonic() < until:
        time.sleep(interval_s)
        polled = server.post("/v1/logins:poll", {"login": begun["login"]})
        interval_s = float(polled["interval_s"])
        if polled["done"]:
            _keep(name, polled)
            return
    raise DeadlineExceeded("the login was not ended in time", next="vgpumgr login")


@click.command()
@pass_context
def logout(context: Context) -> None:
    """End the session at the current context's server."""
    from vgpumgr.client.contexts import ContextFile

    name = _current_name()
    _server(context).post("/v1/logout")
    ContextFile.of(os.environ).set_token(name, "")
    say("logged out")


def typed_password(user: str) -> str:
    """A password that is typed, or is the first line of the input."""
    if at_a_terminal():
        return typed(f"password of {user}", hidden=True)
    return sys.stdin.readline().rstrip("\r\n")


def _keep(name: str, begun: Mapping[str, Any]) -> None:
    """The session of a login that has ended, in a context."""
    from vgpumgr.client.contexts import ContextFile

    ContextFile.of(os.environ).set_token(name, str(begun["secret"]))
    say(f"logged in as {one_line(begun['user'])}")


def _server(context: Context) -> ApiClient:
    if context.server is None:
        raise UsageError("no server is in use", next="vgpumgr context add NAME --server URL")
    return context.server


def _current_name() -> str:
    """The context in which the session is kept."""
    from vgpumgr.client.contexts import ContextFile

    name = ContextFile.of(os.environ).current()
    if not name:
        raise UsageError(
            "no context is in use, and the session is kept in one",
            next="vgpumgr context add NAME --server URL",
        )
    return name
