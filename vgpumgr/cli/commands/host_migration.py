"""``vgpumgr host migration``: where other hosts send a running VM."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from vgpumgr import API_VERSION
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import output_option, say
from vgpumgr.cli.selectors import completed
from vgpumgr.cli.views.host_items import migration_text
from vgpumgr.model.errors import UsageError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.migration import MigrationAddress


@click.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option("--address", help="Name or IP address at which other hosts reach its QEMU.")
@click.option("--no-tls", is_flag=True, help="Send memory unencrypted: only on a trusted network.")
@click.option("--tls-name", help="Name in its certificate, if not the address.")
@click.option("--bandwidth", help="Bandwidth limit per second, like 500MiB.")
@click.option("--off", is_flag=True, help="Accept no live migrations any more.")
@output_option
@pass_context
def migration(context: Context, /, name: str, off: bool, **options: Any) -> None:
    """Set where live migrations are sent to: the migration block of a Host document.

    \b
    vgpumgr host migration gpu2 --address 10.77.0.12
    """
    record = context.app.ledger.host(name)
    if off == bool(options["address"]):
        raise UsageError(
            "either --address or --off",
            next=f"vgpumgr host migration {name} --address ADDRESS",
        )
    wanted = None if off else _address(record, options)
    context.app.writable_ledger.update_host(replace(record, migration=wanted))
    say(f"{name}: {migration_text(wanted) if wanted else 'accepts no live migrations'}")


def _address(record: HostRecord, options: dict[str, Any]) -> MigrationAddress | None:
    """Flags become the same document a file would hold, and go through the same checks."""
    from vgpumgr.spec import COMMAND_LINE, load

    block: dict[str, Any] = {"address": options["address"], "tls": not options["no_tls"]}
    for key in ("tls_name", "bandwidth"):
        if options[key] is not None:
            block[key] = options[key]
    document = {
        "apiVersion": API_VERSION,
        "kind": "Host",
        "name": record.name,
        "address": record.address,
        "migration": block,
    }
    return load(json.dumps(document, ensure_ascii=False).encode(), COMMAND_LINE).hosts[0].migration
