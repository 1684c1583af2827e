"""Shell completion: the script of a shell, and the names that complete, from the ledger or from
the server at which commands are carried out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.command_context import Context
from vgpumgr.cli.terminal import echo
from vgpumgr.model.actor import carried
from vgpumgr.model.json_times import time_text

if TYPE_CHECKING:
    from vgpumgr.client.api_client import ApiClient
    from vgpumgr.model.ledger import Ledger

PATIENCE_S = 2.0
"""How long a shell waits for the names of a server."""


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


def _guest_profiles() -> tuple[str, ...]:
    from vgpumgr import guests

    return guests.profiles()


_NAMES: Mapping[str, Callable[[Ledger], Iterable[str]]] = {
    "backups": lambda ledger: (each.id[:8] for each in ledger.vm_backups()),
    "backup-targets": lambda ledger: (each.name for each in ledger.backup_targets()),
    "bookings": lambda ledger: (each.id for each in ledger.bookings()),
    "calendars": lambda ledger: (each.name for each in ledger.calendars()),
    "flavours": lambda ledger: (each.name for each in ledger.flavours()),
    "gpus": lambda ledger: (each.id for each in ledger.gpus()),
    "guest-profiles": lambda _: _guest_profiles(),
    "hosts": lambda ledger: (each.name for each in ledger.hosts()),
    "images": lambda ledger: (each.reference for each in ledger.images()),
    "notifications": lambda ledger: (each.name for each in ledger.notifications()),
    "open operations": lambda ledger: (each.id for each in ledger.operations(open_only=True)),
    "operations": lambda ledger: (each.id for each in ledger.operations()),
    "pools": lambda ledger: (each.spec.name for each in ledger.pools()),
    "power budgets": lambda ledger: (each.name for each in ledger.power_budgets()),
    "prices": lambda ledger: (time_text(each.begins_at) for each in ledger.price_books()),
    "queue": lambda ledger: (each.vm.name for each in ledger.queue()),
    "login sessions": lambda ledger: (each.id for each in ledger.login_sessions()),
    "subjects": lambda ledger: (each.subject for each in ledger.role_bindings()),
    "tenants": lambda ledger: (each.tenant for each in ledger.quotas()),
    "secrets": lambda ledger: (each.name for each in ledger.secrets()),
    "tokens": lambda ledger: (each.id for each in ledger.api_tokens()),
    "webhooks": lambda ledger: (each.name for each in ledger.webhooks()),
    "snapshots": lambda ledger: (each.name for vm in ledger.vms() for each in vm.snapshots),
    "vms": lambda ledger: (each.name for each in ledger.vms()),
}


# The list that has the names at a server, what of it is asked for, the key of a name in an item.
_LISTS: Mapping[str, tuple[str, Mapping[str, object], str]] = {
    "backups": ("backup.list", {}, "name"),
    "backup-targets": ("backup.target.list", {}, "name"),
    "bookings": ("booking.list", {}, "name"),
    "calendars": ("calendar.list", {}, "name"),
    "flavours": ("flavour.list", {}, "name"),
    "power budgets": ("power.list", {}, "name"),
    "gpus": ("gpu.list", {}, "name"),
    "guest-profiles": ("guest-profile.list", {}, "name"),
    "hosts": ("host.list", {}, "name"),
    "images": ("image.list", {}, "name"),
    "notifications": ("notification.list", {}, "name"),
    "open operations": ("operation.list", {"open": True}, "name"),
    "operations": ("operation.list", {}, "name"),
    "pools": ("pool.list", {}, "name"),
    "prices": ("price.list", {}, "name"),
    "queue": ("queue.list", {}, "name"),
    "login sessions": ("auth.session.list", {}, "id"),
    "subjects": ("role.list", {}, "subject"),
    "tenants": ("quota.list", {}, "tenant"),
    "secrets": ("secret.list", {}, "name"),
    "tokens": ("token.list", {}, "id"),
    "webhooks": ("webhook.list", {}, "name"),
    "snapshots": ("vm.list", {}, "snapshots"),
    "vms": ("vm.list", {}, "name"),
}


def _names_at(server: ApiClient, kind: str) -> list[str]:
    """The names that a server has; none of one that does not answer at once."""
    from vgpumgr.endpoints.registry import ENDPOINTS

    name, asked, key = _LISTS[kind]
    found: list[str] = []

    def ask() -> None:
        with suppress(Exception):
            endpoint = ENDPOINTS[name]
            items = server.call(endpoint, endpoint.asks(**asked)).answer["items"]
            found.extend(name for each in items for name in _texts(each[key]))

    thread = threading.Thread(target=carried(ask), daemon=True)  # it ends with the process
    thread.start()
    thread.join(PATIENCE_S)
    return list(found)


def _texts(value: object) -> list[str]:
    """A name, or each of several."""
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def completed(kind: str) -> Complete:
    """What completes the names of ``kind``, a key of the tables above, from the server or the
    ledger, which are only read; nothing where they cannot be.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        root, given = ctx.find_root().params, ctx.params.get(param.name or "")
        try:
            given_root = {key: value for key, value in root.items() if isinstance(value, str)}
            server = given_root.pop("server", "")
            with closing(Context(given_root, server)) as context:
                if context.server is not None:
                    found = _names_at(context.server, kind)
                else:
                    found = [str(name) for name in _NAMES[kind](context.app.ledger)]
        except Exception:
            return []
        typed = set(given) if isinstance(given, tuple) else set()
        return sorted({name for name in found if name.startswith(incomplete)} - typed)

    return complete
