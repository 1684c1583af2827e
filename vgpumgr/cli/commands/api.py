"""The command `api`: the HTTP API, a process of its own."""

from __future__ import annotations

from pathlib import Path

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import say
from vgpumgr.model.errors import UsageError


@click.command()
@click.option("--socket", metavar="PATH", help="Unix socket to listen at.")
@pass_context
def api(context: Context, socket: str | None) -> None:
    """Serve the HTTP API until stopped: on a unix socket, whose users are known by their uid."""
    try:
        from vgpumgr.api.server import serve_api
        from vgpumgr.api.service import Service
    except ModuleNotFoundError as error:
        raise UsageError(
            "the API's packages are not installed",
            why=str(error),
            next="pip install 'vgpumgr[server]'",
        ) from error
    path = Path(socket) if socket else context.config.state_dir / "api.sock"
    service = Service(context.app, context.overrides)
    say(f"listening at unix:{path}")
    serve_api(service, path, None)
