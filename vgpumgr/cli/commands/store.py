"""``vgpumgr store``."""

from __future__ import annotations

import click

from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import output_option, print_item


@click.group()
def store() -> None:
    """The ledger: migrate."""


@store.command()
@output_option
@pass_context
def migrate(context: Context) -> None:
    """Bring a ledger that an older vgpumgr made to today's schema.

    A ledger file is copied beside itself first. Commands that change something do the same.
    """
    done = context.app.migrate_ledger()
    item = {
        "name": "ledger",
        "before": done.before,
        "after": done.after,
        "backup": str(done.backup) if done.backup else None,
    }
    text = f"schema {done.before} → {done.after}" + (f", backup: {done.backup}" * bool(done.backup))
    print_item("Migration", item, text if done.before != done.after else "nothing to migrate")
