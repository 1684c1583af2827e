"""The commands `context add`, `list`, `use` and `remove`: named servers to work at."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.output import Column, list_options, print_list, say
from vgpumgr.cli.terminal import at_a_terminal, typed
from vgpumgr.model.errors import UsageError

if TYPE_CHECKING:
    from vgpumgr.client.contexts import ContextFile

MAX_TOKEN = 4096
COLUMNS = (
    Column("NAME", "name"),
    Column("CURRENT", "current"),
    Column("SERVER", "server"),
    Column("TOKEN", "token"),
    Column("CA", "ca", wide=True),
)


@click.group()
def context() -> None:
    """Servers to work at, by name: add, list, use, remove."""


def _file() -> ContextFile:
    from vgpumgr.client.contexts import ContextFile

    return ContextFile.of(os.environ)


@context.command()
@click.argument("name")
@click.option("--server", required=True, metavar="URL", help="https://HOST[:PORT] or unix:PATH.")
@click.option("--ca", metavar="FILE", help="Certificates that sign the server's.")
@click.option("--token-stdin", is_flag=True, help="Read an API token from standard input.")
def add(name: str, server: str, ca: str | None, token_stdin: bool) -> None:
    """Add a server, and work at it from now on.

    \b
    vgpumgr context add prod --server https://gpu.example.org:8443 --token-stdin < token
    """
    from vgpumgr.client.api_client import ServerAddress
    from vgpumgr.client.contexts import ServerContext

    ServerAddress.parse(server)
    if ca and not Path(ca).is_file():
        raise UsageError(f"no file {ca}")
    token = _token() if token_stdin else ""
    file = _file()
    where = str(Path(ca).absolute()) if ca else ""
    file.add(ServerContext(name=name, server=server, ca=where), token)
    file.use(name)
    say(f"commands are carried out at {server} from now on; vgpumgr context use --none ends it")


def _token() -> str:
    token = (
        typed("token", hidden=True) if at_a_terminal() else sys.stdin.read(MAX_TOKEN + 1).strip()
    )
    if not token or len(token) > MAX_TOKEN or not token.isprintable() or not token.isascii():
        raise UsageError("that is no token", next="vgpumgr token create")
    return token


@context.command("list")
@list_options
def list_() -> None:
    """List the servers that were added."""
    file = _file()
    current = file.current()
    items = [
        {
            "name": each.name,
            "server": each.server,
            "ca": each.ca,
            "current": each.name == current,
            "token": bool(file.token(each.name)),
        }
        for each in file.contexts()
    ]
    print_list("Context", items, COLUMNS)


@context.command()
@click.argument("name", required=False)
@click.option("--none", "nowhere", is_flag=True, help="Work in the command's own process again.")
def use(name: str | None, nowhere: bool) -> None:
    """Work at a server from now on."""
    if bool(name) == nowhere:
        raise UsageError("either a name or --none", next="vgpumgr context list")
    _file().use(name or "")
    say(f"commands are carried out at {name}" if name else "commands work in their own process")


@context.command()
@click.argument("name")
def remove(name: str) -> None:
    """Forget a server, and its token."""
    _file().remove(name)
    say(f"{name} is forgotten")
