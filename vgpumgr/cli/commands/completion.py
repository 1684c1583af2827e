"""The command `completion`: the completion script of a shell."""

from __future__ import annotations

import click

from vgpumgr.cli.terminal import echo


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell: ``eval "$(vgpumgr completion bash)"``."""
    from click.shell_completion import get_completion_class

    from vgpumgr.cli.root import root

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"no completion for {shell}")
    echo(found(root, {}, "vgpumgr", "_VGPUMGR_COMPLETE").source())
