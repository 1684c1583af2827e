"""Shell completion: the script of a shell, and the names that complete, from the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.command_context import Context
from vgpumgr.cli.terminal import echo

if TYPE_CHECKING:
    from vgpumgr.model.ledger import Ledger


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


Complete = Callable[[click.Context, click.Parameter, str], list[str]]


_NAMES: Mapping[str, Callable[[Ledger], Iterable[str]]] = {
    "bookings": lambda ledger: (each.id for each in ledger.bookings()),
    "gpus": lambda ledger: (each.id for each in ledger.gpus()),
    "hosts": lambda ledger: (each.name for each in ledger.hosts()),
    "images": lambda ledger: (each.reference for each in ledger.images()),
    "open operations": lambda ledger: (each.id for each in ledger.operations(open_only=True)),
    "operations": lambda ledger: (each.id for each in ledger.operations()),
    "pools": lambda ledger: (each.spec.name for each in ledger.pools()),
    "queue": lambda ledger: (each.vm.name for each in ledger.queue()),
    "login sessions": lambda ledger: (each.id for each in ledger.login_sessions()),
    "subjects": lambda ledger: (each.subject for each in ledger.role_bindings()),
    "tenants": lambda ledger: (each.tenant for each in ledger.quotas()),
    "tokens": lambda ledger: (each.id for each in ledger.api_tokens()),
    "vms": lambda ledger: (each.name for each in ledger.vms()),
}


def completed(kind: str) -> Complete:
    """What completes the names of ``kind``, a key of the table above, from the ledger, which is
    only read; nothing where it cannot be read.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        root, given = ctx.find_root().params, ctx.params.get(param.name or "")
        try:
            overrides = {key: value for key, value in root.items() if isinstance(value, str)}
            with closing(Context(overrides)) as context:
                found = [str(name) for name in _NAMES[kind](context.app.ledger)]
        except Exception:
            return []
        typed = set(given) if isinstance(given, tuple) else set()
        return sorted({name for name in found if name.startswith(incomplete)} - typed)

    return complete
